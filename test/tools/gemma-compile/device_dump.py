"""device_dump.py DUMP CHIP...: the emulated device and the real one get the same PTX.

DUMP is what `gemma-compile --target CHIP,emu-CHIP,... --dump-dir` wrote. For each chip every kernel has
both texts, equal byte for byte, and a cubin.
"""
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
for chip in sys.argv[2:]:
    suffix = f".emu-{chip}.ptx"
    kernels = sorted(path.name.removesuffix(suffix) for path in folder.glob("*" + suffix))
    assert kernels, f"{folder}: no KERNEL{suffix}"
    for kernel in kernels:
        emulated = (folder / (kernel + suffix)).read_bytes()
        real = (folder / f"{kernel}.{chip}.ptx").read_bytes()
        assert emulated == real, f"{kernel} for {chip}: the emulated PTX is not the assembled one"
        assert b".entry " + kernel.encode() in emulated, f"{kernel}: not in its own PTX"
        cubin = (folder / f"{kernel}.{chip}.cubin").read_bytes()
        assert cubin[:4] == b"\x7fELF", f"{kernel} for {chip}: no cubin"
    assert len(kernels) == len(list(folder.glob(f"*.{chip}.cubin"))), "kernels that are assembled only"
    print(f"{chip}: {len(kernels)} kernels emulated and assembled from the same PTX")
