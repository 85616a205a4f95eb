# The lit suite: every .mlir and .test file under test/, except data and unit tests.
#
# In RUN lines:
#   our tools (gemma-opt, gemma-compile, ...), FileCheck, not, split-file, mlir-opt  are in PATH
#   %s %t %S                                   lit's own: this file, a scratch name, its folder
#   %source %build                             repository root, build root
#   %data                                      test/data
#   %kjv                                       examples/kjv-mini
#   %python                                    the Python of the build
# In REQUIRES lines:
#   cuda      a CUDA driver with a device
#   ptxas     the assembler of the CUDA toolkit
#   long      the tests that take minutes (GEMMA_LONG_TESTS=1)
#   asan      the tools are built with sanitizers
#   a tool's name (gemma-run, ...)             that tool is built
import ctypes
import os
import shutil

import lit.formats

config.name = "gemma"
# The internal shell: the same on every machine, and it prints which command of a test failed.
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["data", "unit", "Inputs"]
config.test_source_root = os.path.join(config.gemma_source_dir, "test")
config.test_exec_root = os.path.join(config.gemma_build_dir, "test")

config.environment["PATH"] = os.pathsep.join(
    [config.gemma_tools_dir, config.llvm_tools_dir, os.environ.get("PATH", "")]
)
cuda_homes = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
for name in ("GEMMA_LONG_TESTS", "GEMMA_ISA", "GEMMA_PTXAS", "GEMMA_NVDISASM", *cuda_homes,
             "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.substitutions += [
    ("%source", config.gemma_source_dir),
    ("%build", config.gemma_build_dir),
    ("%data", os.path.join(config.gemma_source_dir, "test", "data")),
    ("%kjv", os.path.join(config.gemma_source_dir, "examples", "kjv-mini")),
    ("%python", config.python_executable),
]


def has_cuda_device():
    """True if the driver's library is there and counts at least one device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return False
    return count.value > 0


def find_ptxas():
    """Where the compiler looks for it, codegen/gpu/Ptxas.h."""
    if "GEMMA_PTXAS" in os.environ:
        return shutil.which(os.environ["GEMMA_PTXAS"])
    homes = [os.environ[name] for name in cuda_homes if name in os.environ]
    folders = [os.path.join(home, "bin") for home in homes + ["/usr/local/cuda"]]
    return shutil.which("ptxas", path=os.pathsep.join(folders)) or shutil.which("ptxas")


if find_ptxas():
    config.available_features.add("ptxas")
if has_cuda_device():
    config.available_features.add("cuda")
if os.environ.get("GEMMA_LONG_TESTS") == "1":
    config.available_features.add("long")
if config.gemma_sanitize:
    config.available_features.add("asan")
if os.path.isdir(config.gemma_tools_dir):
    for name in os.listdir(config.gemma_tools_dir):
        if name.startswith("gemma-"):
            config.available_features.add(name)
