"""Checks the machine code of the hot loops of host kernels.

usage: hot_loops.py OBJDUMP DUMP [-v]

DUMP is what `gemma-compile --dump-dir` wrote: memory.mlir says what each kernel does, NAME.ISA.o is
its code. A hot loop is an innermost one: from the target of a backward jump to the jump, with no
other such loop inside.

What must hold, kernel by kernel and instruction set by instruction set:
  * kernels with kernel.contract or kernel.attention: of the floating-point arithmetic, and of the
    products of integers, in innermost loops at least 90 % is packed and uses registers of the set's
    full width. Heads of fewer than 8
    registers (the narrow test models) are excepted: a loop over such a head is one register or two,
    and the sum over its lanes remains;
  * kernels with kernel.contract: innermost loops with arithmetic do not touch the stack;
  * all kernels: no alloca, and no vector register goes to or comes from the stack in any innermost loop. Addresses
    may, outside of contracts: a launch that does norms, rope, append and attention addresses more
    arrays than there are integer registers, and its loops over a row have few steps. Products of integers need
    more registers than 16: with AVX2 at most one access of the stack for two of them, without it any number.
"""

import collections
import glob
import os
import re
import subprocess
import sys

WIDTH = {"avx512vnni": "zmm", "avx512": "zmm", "avx2": "ymm", "baseline": "xmm"}
BITS = {"avx512vnni": 512, "avx512": 512, "avx2": 256, "baseline": 128}
SHARE = 0.9

ARITHMETIC = re.compile(
    r"^v?(?:add|sub|addsub|hadd|hsub|mul|div|sqrt|max|min|rsqrt|rcp|dpbf16|dpp"
    r"|fn?m(?:add|sub)(?:132|213|231)|fm(?:addsub|subadd)(?:132|213|231))(?:14)?(?:ps|pd|ss|sd)$"
)
# Sums of products of neighbouring integers; there are no scalar ones.
INTEGER_PRODUCT = re.compile(r"^v?(?:pmaddubsw|pmaddwd|pdpbusds?|pdpwssds?)$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(?:\{\w+\}\s+)?(?:(?:lock|rep|data16)\s+)*(\S+)\s*(.*)$")
FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
JUMP_TARGET = re.compile(r"^0x([0-9a-f]+)\b")

Instruction = collections.namedtuple("Instruction", "address mnemonic operands")


class Kernel:
    """What memory.mlir says of a kernel."""

    def __init__(self):
        self.ops = set()
        self.head_bits = None  # of a head's numbers as they are computed


def read_kernels(path):
    """The kernels of a module by name."""
    kernels = collections.defaultdict(Kernel)
    current = None
    with open(path) as module:
        for line in module:
            found = re.match(r"\s*kernel\.func @(\w+)", line)
            if found:
                current = kernels[found.group(1)]
            found = re.match(r"\s*kernel\.(contract|attention|rows)\b", line)
            if found:
                current.ops.add(found.group(1))
            if " quantised(" in line:
                current.ops.add("quantised")
            found = re.search(r"kernel\.attention .* out\(%\w+ : memref<\?x\d+x(\d+)xf(\d+)>", line)
            if found:
                current.head_bits = int(found.group(1)) * int(found.group(2))
    return kernels


def disassemble(objdump, path):
    """The instructions of each function of an object."""
    text = subprocess.run(
        [objdump, "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True
    ).stdout
    functions, current = {}, None
    for line in text.splitlines():
        found = FUNCTION.match(line)
        if found:
            current = functions.setdefault(found.group(1), [])
            continue
        found = LINE.match(line)
        if found and current is not None:
            operands = found.group(3).split("#")[0].strip()
            current.append(Instruction(int(found.group(1), 16), found.group(2), operands))
    return functions


def jump_target(instruction):
    found = instruction.mnemonic.startswith("j") and JUMP_TARGET.match(instruction.operands)
    return int(found.group(1), 16) if found else None


def is_loop(code, begin, end):
    """Whether control can go from begin to end without leaving the span between them."""
    span = [i for i in code if begin <= i.address <= end]
    place = {instruction.address: at for at, instruction in enumerate(span)}
    todo, seen = [0], set()
    while todo:
        at = todo.pop()
        if at in seen or at >= len(span):
            continue
        seen.add(at)
        target = jump_target(span[at])
        if target in place:
            todo.append(place[target])
        if span[at].mnemonic not in ("jmp", "retq"):
            todo.append(at + 1)
    return len(span) - 1 in seen


def innermost_loops(code):
    """(first, last) addresses of the loops that hold no other loop."""
    ends = {}
    for instruction in code:
        begin = jump_target(instruction)
        if begin is not None and begin <= instruction.address:
            ends[begin] = max(ends.get(begin, 0), instruction.address)
    spans = [span for span in sorted(ends.items()) if is_loop(code, *span)]
    return [
        (b, e)
        for b, e in spans
        if not any((b, e) != (x, y) and b <= x and y <= e for x, y in spans)
    ]


def is_arithmetic(instruction):
    return ARITHMETIC.match(instruction.mnemonic) is not None


def is_integer_product(instruction):
    return INTEGER_PRODUCT.match(instruction.mnemonic) is not None


def is_packed(instruction, width):
    packed = is_integer_product(instruction) or instruction.mnemonic[-2] == "p"
    return packed and "%" + width in instruction.operands


def touches_stack(instruction, frame_pointer):
    if instruction.mnemonic.startswith(("lea", "nop", "prefetch")):
        return False
    base = r"\(%rsp" + (r"|\(%rbp" if frame_pointer else "")
    return instruction.mnemonic in ("pushq", "popq") or bool(re.search(base, instruction.operands))


class Loops:
    """The innermost loops of a function."""

    def __init__(self, code, width):
        frame_pointer = any(i.mnemonic == "movq" and i.operands == "%rsp, %rbp" for i in code)
        self.arithmetic = self.packed = self.products = 0
        self.stack = []  # accesses in loops with arithmetic
        self.spills = []  # of vector registers, in any loop
        for begin, end in innermost_loops(code):
            body = [i for i in code if begin <= i.address <= end]
            counted = [i for i in body if is_arithmetic(i) or is_integer_product(i)]
            self.arithmetic += len(counted)
            self.packed += sum(is_packed(i, width) for i in counted)
            accesses = [i for i in body if touches_stack(i, frame_pointer)]
            spills = [i for i in accesses if re.search("%[xyz]mm", i.operands)]
            products = sum(is_integer_product(i) for i in counted)
            self.products += products
            if products and width == "xmm":
                continue
            if products and width == "ymm" and 2 * len(spills) <= products:
                continue
            if counted:
                self.stack += accesses
            self.spills += spills

    def share(self):
        return self.packed / self.arithmetic if self.arithmetic else 0


def show(instructions):
    first = instructions[0]
    return f"{len(instructions)}, first {first.address:#x}: {first.mnemonic} {first.operands}"


def faults(kernel, isa, loops):
    width = WIDTH[isa]
    hot = kernel.ops & {"contract", "attention"}
    short_head = kernel.head_bits is not None and kernel.head_bits < 8 * BITS[isa]
    if hot and not short_head and loops.share() < SHARE:
        yield (
            f"expected {SHARE:.0%} of the arithmetic in innermost loops to be packed in {width}"
            f" registers, got {loops.packed} of {loops.arithmetic}"
        )
    if "quantised" in kernel.ops and not loops.products:
        yield "expected products of integers in innermost loops, got none"
    if loops.spills:
        yield f"expected no vector register on the stack in innermost loops, got {show(loops.spills)}"
    elif "contract" in kernel.ops and loops.stack:
        yield f"expected no stack in innermost loops, got {show(loops.stack)}"


def main(objdump, dump, verbose):
    kernels = read_kernels(os.path.join(dump, "memory.mlir"))
    bad, checked, hot = 0, collections.Counter(), collections.Counter()
    for path in sorted(glob.glob(os.path.join(dump, "*.o"))):
        name, isa = os.path.basename(path)[: -len(".o")].rsplit(".", 1)
        loops = Loops(disassemble(objdump, path)[name], WIDTH[isa])
        checked[isa] += 1
        hot[isa] += loops.arithmetic
        if verbose:
            print(
                f"{name} {isa}: {loops.packed} of {loops.arithmetic} packed,"
                f" {len(loops.stack)} stack accesses"
            )
        with open(path[: -len("o")] + "ll") as ir:
            if " = alloca " in ir.read():
                print(f"{path}: expected no alloca in its .ll")
                bad += 1
        for fault in faults(kernels[name], isa, loops):
            print(f"{path}: {fault}")
            bad += 1
    for isa in sorted(checked):
        print(f"{isa}: {checked[isa]} kernels, {hot[isa]} arithmetic instructions in hot loops")
    # Nothing found to check is a fault of the test.
    return 1 if bad or not checked or any(checked[isa] != len(kernels) for isa in checked) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], "-v" in sys.argv[3:]))
