// The CUDA driver API as far as we use it: types, numbers and entry points, as the documentation of
// the driver API gives them (docs.nvidia.com/cuda/cuda-driver-api). No header of CUDA is needed to
// build; the library is opened at run time (Library.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace gemma::cuda {

/// CUresult. 0 is success.
using Result = int;
/// CUdevice, CUdeviceptr.
using DeviceHandle = int;
using DevicePointer = unsigned long long;
/// CUcontext, CUmodule, ...: pointers to what only the driver knows.
using ContextHandle = struct ContextState *;
using ModuleHandle = struct ModuleState *;
using FunctionHandle = struct FunctionState *;
using StreamHandle = struct StreamState *;
using GraphHandle = struct GraphState *;
using GraphExecHandle = struct GraphExecState *;

/// CUresult's values that we tell apart.
enum ResultCode : Result {
  Success = 0,
  ErrorInvalidValue = 1,
  ErrorOutOfMemory = 2,
  ErrorNotInitialized = 3,
  ErrorNoDevice = 100,
  ErrorInvalidDevice = 101,
  ErrorInvalidImage = 200,
  ErrorInvalidContext = 201,
  ErrorNoBinaryForGpu = 209,
  ErrorInvalidPtx = 218,
  ErrorJitCompilerNotFound = 221,
  ErrorUnsupportedPtxVersion = 222,
  ErrorJitCompilationDisabled = 223,
  ErrorInvalidSource = 300,
  ErrorNotFound = 500,
  ErrorInvalidHandle = 400,
  ErrorIllegalAddress = 700,
  ErrorLaunchOutOfResources = 701,
  ErrorLaunchFailed = 719,
};

/// CUdevice_attribute.
enum DeviceAttribute : int {
  MaxThreadsPerBlock = 1,
  MaxGridDimX = 5,
  MultiprocessorCount = 16,
  EccEnabled = 32,
  MemoryClockRate = 36,      ///< kHz
  GlobalMemoryBusWidth = 37, ///< bits
  L2CacheSize = 38,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerMultiprocessor = 81,
  MaxSharedMemoryPerBlockOptin = 97,
};

/// CUfunction_attribute.
enum FunctionAttribute : int {
  FunctionMaxThreadsPerBlock = 0,
  FunctionStaticSharedBytes = 1,
  FunctionRegisters = 4,
  FunctionMaxDynamicSharedBytes = 8, ///< must be set above 48 KiB
};

/// CUjit_option.
enum JitOption : int { JitErrorLogBuffer = 5, JitErrorLogBufferBytes = 6 };

inline constexpr unsigned streamNonBlocking = 1;          ///< CU_STREAM_NON_BLOCKING
inline constexpr int captureThreadLocal = 1;              ///< CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr uint64_t ordinarySharedBytes = 48 << 10; ///< without FunctionMaxDynamicSharedBytes

/// An entry point: its name in the library, and its address.
template <typename... Args> struct Entry {
  const char *name;
  Result (*function)(Args...) = nullptr;
};

/// The entry points. `_v2` is the ABI of 64-bit sizes that every driver has had since CUDA 4.
struct Api {
  Entry<unsigned /*flags*/> init{"cuInit"};
  Entry<int *> driverGetVersion{"cuDriverGetVersion"};
  Entry<Result, const char **> getErrorName{"cuGetErrorName"};
  Entry<Result, const char **> getErrorString{"cuGetErrorString"};
  Entry<int *> deviceGetCount{"cuDeviceGetCount"};
  Entry<DeviceHandle *, int /*ordinal*/> deviceGet{"cuDeviceGet"};
  Entry<char *, int /*bytes*/, DeviceHandle> deviceGetName{"cuDeviceGetName"};
  Entry<int *, int /*DeviceAttribute*/, DeviceHandle> deviceGetAttribute{"cuDeviceGetAttribute"};
  Entry<size_t *, DeviceHandle> deviceTotalMem{"cuDeviceTotalMem_v2"};
  Entry<ContextHandle *, DeviceHandle> primaryCtxRetain{"cuDevicePrimaryCtxRetain"};
  Entry<DeviceHandle> primaryCtxRelease{"cuDevicePrimaryCtxRelease_v2"};
  Entry<ContextHandle> ctxSetCurrent{"cuCtxSetCurrent"};
  Entry<size_t * /*free*/, size_t * /*total*/> memGetInfo{"cuMemGetInfo_v2"};
  Entry<ModuleHandle *, const void *, unsigned, int * /*JitOption*/, void **> moduleLoad{
      "cuModuleLoadDataEx"};
  Entry<ModuleHandle> moduleUnload{"cuModuleUnload"};
  Entry<FunctionHandle *, ModuleHandle, const char *> moduleGetFunction{"cuModuleGetFunction"};
  Entry<int *, int /*FunctionAttribute*/, FunctionHandle> funcGetAttribute{"cuFuncGetAttribute"};
  Entry<FunctionHandle, int /*FunctionAttribute*/, int> funcSetAttribute{"cuFuncSetAttribute"};
  Entry<DevicePointer *, size_t> memAlloc{"cuMemAlloc_v2"};
  Entry<DevicePointer> memFree{"cuMemFree_v2"};
  Entry<void **, size_t, unsigned /*flags*/> memHostAlloc{"cuMemHostAlloc"};
  Entry<void *> memFreeHost{"cuMemFreeHost"};
  Entry<DevicePointer, const void *, size_t, StreamHandle> memcpyToDevice{"cuMemcpyHtoDAsync_v2"};
  Entry<void *, DevicePointer, size_t, StreamHandle> memcpyToHost{"cuMemcpyDtoHAsync_v2"};
  Entry<DevicePointer, unsigned char, size_t, StreamHandle> memset{"cuMemsetD8Async"};
  Entry<StreamHandle *, unsigned /*flags*/> streamCreate{"cuStreamCreate"};
  Entry<StreamHandle> streamSynchronize{"cuStreamSynchronize"};
  Entry<StreamHandle> streamDestroy{"cuStreamDestroy_v2"};
  /// Grid x, y, z, block x, y, z, dynamic shared bytes, stream, parameters, extra.
  Entry<FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
        StreamHandle, void **, void **>
      launchKernel{"cuLaunchKernel"};
  Entry<StreamHandle, int /*mode*/> streamBeginCapture{"cuStreamBeginCapture_v2"};
  Entry<StreamHandle, GraphHandle *> streamEndCapture{"cuStreamEndCapture"};
  Entry<GraphExecHandle *, GraphHandle, unsigned long long /*flags*/> graphInstantiate{
      "cuGraphInstantiateWithFlags"};
  Entry<GraphExecHandle, StreamHandle> graphLaunch{"cuGraphLaunch"};
  Entry<GraphExecHandle> graphExecDestroy{"cuGraphExecDestroy"};
  Entry<GraphHandle> graphDestroy{"cuGraphDestroy"};

  /// Calls `visit` with each entry.
  template <typename Visit> void forEach(Visit &&visit) {
    auto all = [&](auto &...entries) { (visit(entries), ...); };
    all(init, driverGetVersion, getErrorName, getErrorString, deviceGetCount, deviceGet,
        deviceGetName, deviceGetAttribute, deviceTotalMem, primaryCtxRetain, primaryCtxRelease,
        ctxSetCurrent, memGetInfo, moduleLoad, moduleUnload, moduleGetFunction, funcGetAttribute,
        funcSetAttribute, memAlloc, memFree, memHostAlloc, memFreeHost, memcpyToDevice,
        memcpyToHost, memset, streamCreate, streamSynchronize, streamDestroy, launchKernel,
        streamBeginCapture, streamEndCapture, graphInstantiate, graphLaunch, graphExecDestroy,
        graphDestroy);
  }
};

} // namespace gemma::cuda
