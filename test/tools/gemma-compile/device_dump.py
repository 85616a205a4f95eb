"""device_dump.py DUMP: the emulated device and the real one get the same PTX.

DUMP is what `gemma-compile --target sm_80,emu-sm_80 --dump-dir` wrote. Every kernel has both texts,
equal byte for byte, and a cubin. Without ptxas there is no such folder: see device-dump.test.
"""
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
kernels = sorted(path.name.removesuffix(".emu-sm_80.ptx") for path in folder.glob("*.emu-sm_80.ptx"))
assert kernels, f"{folder}: no KERNEL.emu-sm_80.ptx"
for kernel in kernels:
    emulated = (folder / f"{kernel}.emu-sm_80.ptx").read_bytes()
    real = (folder / f"{kernel}.sm_80.ptx").read_bytes()
    assert emulated == real, f"{kernel}: the emulated PTX is not the assembled one"
    assert b".entry " + kernel.encode() in emulated, f"{kernel}: not in its own PTX"
    cubin = (folder / f"{kernel}.sm_80.cubin").read_bytes()
    assert cubin[:4] == b"\x7fELF", f"{kernel}: no cubin"
assert len(kernels) == len(list(folder.glob("*.sm_80.cubin"))), "kernels that are assembled only"
print(f"{len(kernels)} kernels: emulated and assembled from the same PTX")
