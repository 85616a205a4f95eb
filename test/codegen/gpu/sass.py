"""What NVIDIA's disassembler says about cubins: local memory, how wide accesses to global memory are, and in
which order copies, waits and products come."""
import os
import pathlib
import re
import shutil
import subprocess

LABEL = re.compile(r"^(\.L_x_\d+):")
BRANCH = re.compile(r"\bBRA\w*(?:\.\w+)* .*?`\((\.L_x_\d+)\)")
ACCESS = re.compile(r"\b(LDG|LDGSTS|STG|LDL|STL|ATOMG|RED)\.([A-Z0-9a-z_.]+) ")
TRIPS = 16  # of a loop, where instructions are weighted by how often they run


def find_nvdisasm():
    """$GEMMA_NVDISASM, bin/ of the toolkit's folders, PATH, or NVIDIA's Python wheel: of the interpreter or where
    scripts/setup.sh puts it."""
    roots = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")] + ["/usr/local/cuda"]
    candidates = [os.environ.get("GEMMA_NVDISASM", "")] + [f"{root}/bin/nvdisasm" for root in roots if root]
    candidates.append(shutil.which("nvdisasm") or "")
    wheels = [pathlib.Path(__file__).resolve().parents[3] / "build" / "nvdisasm" / "nvidia"]
    try:
        import nvidia
        wheels += [pathlib.Path(folder) for folder in nvidia.__path__]
    except ImportError:
        pass
    candidates += [str(path) for wheel in wheels for path in wheel.glob("*/bin/nvdisasm")]
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def disassemble(nvdisasm, cubin):
    # Its analysis of data flow takes a third of the time and changes nothing of the text.
    return subprocess.run([nvdisasm, "-c", "-ndf", str(cubin)], capture_output=True, text=True, check=True).stdout


def loops(lines):
    """(first, last) line of every loop: a branch back to a label makes one of what lies between."""
    labels = {match.group(1): i for i, line in enumerate(lines) if (match := LABEL.match(line))}
    found = []
    for i, line in enumerate(lines):
        match = BRANCH.search(line)
        first = labels.get(match.group(1), i) if match else i
        # The branch to itself behind EXIT is padding.
        if first < i - 1:
            found.append((first, i))
    return found


def depths(lines):
    """How many loops each line is in."""
    depth = [0] * len(lines)
    for first, last in loops(lines):
        for i in range(first, last + 1):
            depth[i] += 1
    return depth


def width(modifiers):
    for name, size in ((".128", 16), (".64", 8), (".U16", 2), (".S16", 2), (".U8", 1), (".S8", 1)):
        if f".{modifiers}.".find(name + ".") >= 0:
            return size
    return 4


def accesses(text):
    """(opcode, bytes, loop depth) of every access to global or local memory."""
    lines = text.splitlines()
    found = []
    for line, depth in zip(lines, depths(lines)):
        match = ACCESS.search(line)
        if match:
            found.append((match.group(1), width(match.group(2)), depth))
    return found


def wide_share(found):
    """Bytes of 16-byte accesses among all to global memory, an instruction in d loops TRIPS ** d times.

    Loads of 4 bytes are sizes, page numbers and scalars: the same address in all threads of a warp, so
    they count once a warp and not once a thread.
    """
    wide = total = 0
    for opcode, size, depth in found:
        times = TRIPS ** depth * (1 / 32 if opcode == "LDG" and size == 4 else 1)
        total += size * times
        wide += size * times if size == 16 else 0
    return wide / total if total else 1.0


OPERATION = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?(DEPBAR|LDGDEPBAR|BAR|LDSM|HMMA|LDGSTS)\b")


def operations(text):
    """(line, opcode) of waits, barriers, copies and what tensor cores do, in the order of the code."""
    return [(i, match.group(1)) for i, line in enumerate(text.splitlines()) if (match := OPERATION.search(line))]


def unguarded_reads(text):
    """Lines of LDSM that follow a wait for copies without a barrier between: other threads' copies are read too."""
    wrong, waited = [], False
    for line, opcode in operations(text):
        if opcode == "DEPBAR":
            waited = True
        elif opcode == "BAR":
            waited = False
        elif opcode == "LDSM" and waited:
            wrong.append(line)
            waited = False
    return wrong


def has_looped_copies(text):
    """Whether a loop has products and copies. One over columns that all fit into the ring has no copies: they all
    come before it, or it is unrolled."""
    found = operations(text)
    return any({"HMMA", "LDGSTS"} <= {opcode for line, opcode in found if first <= line <= last}
               for first, last in loops(text.splitlines()))


def late_copies(text):
    """(pipelined loops, those of them without overlap).

    A loop with copies, waits and products is pipelined. It overlaps if a product comes between a copy and the next
    wait: the copy is for a later stage, and on its way while the tensor cores are busy.
    """
    found = operations(text)
    pipelined = late = 0
    for first, last in loops(text.splitlines()):
        inside = [opcode for line, opcode in found if first <= line <= last]
        if not {"HMMA", "DEPBAR", "LDGSTS"} <= set(inside):
            continue
        pipelined += 1
        on_its_way = overlaps = False
        for opcode in inside:
            if opcode in ("LDGSTS", "DEPBAR"):
                on_its_way = opcode == "LDGSTS"
            elif opcode == "HMMA":
                overlaps |= on_its_way
        late += not overlaps
    return pipelined, late
