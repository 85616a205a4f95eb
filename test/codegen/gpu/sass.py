"""What NVIDIA's disassembler says about cubins: local memory, and how wide accesses to global memory are."""
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
    """$GEMMA_NVDISASM, bin/ of the toolkit's folders, PATH, or the one of NVIDIA's Python wheel."""
    roots = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")] + ["/usr/local/cuda"]
    candidates = [os.environ.get("GEMMA_NVDISASM", "")] + [f"{root}/bin/nvdisasm" for root in roots if root]
    candidates.append(shutil.which("nvdisasm") or "")
    try:
        import nvidia
        candidates += [str(p) for folder in nvidia.__path__ for p in pathlib.Path(folder).glob("*/bin/nvdisasm")]
    except ImportError:
        pass
    return next((path for path in candidates if path and os.access(path, os.X_OK)), None)


def disassemble(nvdisasm, cubin):
    return subprocess.run([nvdisasm, "-c", str(cubin)], capture_output=True, text=True, check=True).stdout


def depths(lines):
    """How many loops each line is in: a branch back to a label makes a loop of what lies between."""
    labels = {match.group(1): i for i, line in enumerate(lines) if (match := LABEL.match(line))}
    depth = [0] * len(lines)
    for i, line in enumerate(lines):
        match = BRANCH.search(line)
        first = labels.get(match.group(1), i) if match else i
        # The branch to itself behind EXIT is padding.
        if first < i - 1:
            for j in range(first, i + 1):
                depth[j] += 1
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
