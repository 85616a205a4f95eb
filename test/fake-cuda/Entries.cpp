// The entry points of the fake driver library: runtime/device/cuda/Api.h says what each one takes.
#include "test/fake-cuda/FakeDriver.h"

#include <cstring>

using namespace gemma;
using namespace gemma::cuda;
using fake::Driver;

/// Begins an entry point: takes the lock, counts the call, returns what it must fail with.
#define ENTER(...)                                                                                 \
  Driver &driver = Driver::get();                                                                  \
  std::lock_guard guard(driver.mutex);                                                             \
  if (Result result = driver.enter(__VA_ARGS__); result != Success)                                \
  return result

/// The same for one that gives something back: it is gone whatever the entry point returns.
#define ENTER_RELEASE(name)                                                                        \
  Driver &driver = Driver::get();                                                                  \
  std::lock_guard guard(driver.mutex);                                                             \
  Result failure = driver.enter(name)

static constexpr DeviceHandle firstDevice = 40; // no ordinal

extern "C" {

Result cuInit(unsigned flags) {
  ENTER("cuInit", false);
  if (flags != 0)
    return ErrorInvalidValue;
  if (driver.settings.devices == 0)
    return ErrorNoDevice;
  driver.initialised = true;
  return Success;
}

Result cuDriverGetVersion(int *version) {
  ENTER("cuDriverGetVersion", false);
  *version = driver.settings.driver;
  return Success;
}

Result cuGetErrorName(Result error, const char **name) {
  static const std::map<Result, const char *> names = {
      {Success, "CUDA_SUCCESS"},
      {ErrorInvalidValue, "CUDA_ERROR_INVALID_VALUE"},
      {ErrorOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY"},
      {ErrorNotInitialized, "CUDA_ERROR_NOT_INITIALIZED"},
      {ErrorNoDevice, "CUDA_ERROR_NO_DEVICE"},
      {ErrorInvalidDevice, "CUDA_ERROR_INVALID_DEVICE"},
      {ErrorInvalidImage, "CUDA_ERROR_INVALID_IMAGE"},
      {ErrorInvalidContext, "CUDA_ERROR_INVALID_CONTEXT"},
      {ErrorNoBinaryForGpu, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
      {ErrorInvalidPtx, "CUDA_ERROR_INVALID_PTX"},
      {ErrorUnsupportedPtxVersion, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
      {ErrorInvalidHandle, "CUDA_ERROR_INVALID_HANDLE"},
      {ErrorNotFound, "CUDA_ERROR_NOT_FOUND"},
      {ErrorIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {ErrorLaunchOutOfResources, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
      {ErrorLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED"},
  };
  auto found = names.find(error);
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? ErrorInvalidValue : Success;
}

Result cuGetErrorString(Result error, const char **text) {
  *text = nullptr;
  const char *name = nullptr;
  if (cuGetErrorName(error, &name) != Success)
    return ErrorInvalidValue;
  *text = "a text of the fake driver";
  return Success;
}

Result cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", false);
  *count = driver.settings.devices;
  return Success;
}

Result cuDeviceGet(DeviceHandle *device, int ordinal) {
  ENTER("cuDeviceGet", false);
  if (ordinal < 0 || ordinal >= driver.settings.devices)
    return ErrorInvalidDevice;
  *device = firstDevice + ordinal;
  return Success;
}

Result cuDeviceGetName(char *name, int bytes, DeviceHandle device) {
  ENTER("cuDeviceGetName", false);
  if (device < firstDevice || bytes <= 0)
    return ErrorInvalidDevice;
  std::strncpy(name, "Fake GPU", size_t(bytes));
  return Success;
}

Result cuDeviceGetAttribute(int *value, int attribute, DeviceHandle device) {
  ENTER("cuDeviceGetAttribute", false);
  if (device < firstDevice)
    return ErrorInvalidDevice;
  switch (attribute) {
  case MaxThreadsPerBlock:
    *value = driver.settings.threads;
    return Success;
  case MaxGridDimX:
    *value = 0x7fffffff;
    return Success;
  case MultiprocessorCount:
    *value = 4;
    return Success;
  case ComputeCapabilityMajor:
    *value = driver.settings.major;
    return Success;
  case ComputeCapabilityMinor:
    *value = driver.settings.minor;
    return Success;
  case MaxSharedMemoryPerBlockOptin:
    *value = driver.settings.shared;
    return Success;
  default:
    *value = 0;
    return Success;
  }
}

Result cuDeviceTotalMem_v2(size_t *bytes, DeviceHandle device) {
  ENTER("cuDeviceTotalMem", false);
  *bytes = driver.settings.memory;
  return Success;
}

Result cuDevicePrimaryCtxRetain(ContextHandle *context, DeviceHandle device) {
  ENTER("cuDevicePrimaryCtxRetain", false);
  ++driver.context.retained;
  *context = &driver.context;
  return Success;
}

Result cuDevicePrimaryCtxRelease_v2(DeviceHandle device) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.mutex);
  Result failure = driver.enter("cuDevicePrimaryCtxRelease", false);
  if (driver.context.retained == 0)
    return ErrorInvalidContext;
  --driver.context.retained;
  return failure;
}

Result cuCtxSetCurrent(ContextHandle context) {
  ENTER("cuCtxSetCurrent", false);
  if (context != &driver.context)
    return ErrorInvalidContext;
  fake::current = context;
  return Success;
}

Result cuMemGetInfo_v2(size_t *left, size_t *total) {
  ENTER("cuMemGetInfo");
  uint64_t used = 0;
  for (const auto &[pointer, allocation] : driver.memory)
    used += allocation.bytes;
  *left = driver.settings.memory - std::min(driver.settings.memory, used);
  *total = driver.settings.memory;
  return Success;
}

Result cuModuleLoadDataEx(ModuleHandle *module, const void *image, unsigned count, int *options,
                          void **values) {
  ENTER("cuModuleLoadDataEx");
  std::string log;
  Result result = driver.loadModule(module, static_cast<const char *>(image), log);
  char *buffer = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == JitErrorLogBuffer)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == JitErrorLogBufferBytes)
      room = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (buffer && room)
    std::strncpy(buffer, log.c_str(), room - 1);
  return result;
}

Result cuModuleUnload(ModuleHandle module) {
  ENTER_RELEASE("cuModuleUnload");
  if (driver.modules.erase(module) == 0)
    return ErrorInvalidHandle;
  delete module;
  return failure;
}

Result cuModuleGetFunction(FunctionHandle *function, ModuleHandle module, const char *name) {
  ENTER("cuModuleGetFunction");
  if (!driver.modules.count(module))
    return ErrorInvalidHandle;
  Expected<const emu::Module::Kernel *> kernel = module->module.kernel(name);
  if (!kernel)
    return ErrorNotFound;
  std::unique_ptr<FunctionState> &made = module->functions[name];
  if (!made)
    made = std::make_unique<FunctionState>(FunctionState{module, *kernel});
  *function = made.get();
  return Success;
}

Result cuFuncGetAttribute(int *value, int attribute, FunctionHandle function) {
  ENTER("cuFuncGetAttribute");
  switch (attribute) {
  case FunctionMaxThreadsPerBlock:
    *value = std::min(driver.settings.threads, int(function->kernel->maxThreads));
    return Success;
  case FunctionStaticSharedBytes:
    *value = int(function->kernel->staticShared);
    return Success;
  case FunctionRegisters:
    *value = 64;
    return Success;
  default:
    return ErrorInvalidValue;
  }
}

Result cuFuncSetAttribute(FunctionHandle function, int attribute, int value) {
  ENTER("cuFuncSetAttribute");
  if (attribute != FunctionMaxDynamicSharedBytes || value < 0 ||
      uint64_t(value) + function->kernel->staticShared > uint64_t(driver.settings.shared))
    return ErrorInvalidValue;
  function->dynamicShared = uint64_t(value);
  return Success;
}

Result cuMemAlloc_v2(DevicePointer *pointer, size_t bytes) {
  ENTER("cuMemAlloc");
  return driver.allocate(pointer, bytes);
}

Result cuMemFree_v2(DevicePointer pointer) {
  ENTER_RELEASE("cuMemFree");
  Result result = driver.release(pointer);
  return failure != Success ? failure : result;
}

Result cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags) {
  ENTER("cuMemHostAlloc");
  return driver.allocatePinned(pointer, bytes);
}

Result cuMemFreeHost(void *pointer) {
  ENTER_RELEASE("cuMemFreeHost");
  Result result = driver.releasePinned(pointer);
  return failure != Success ? failure : result;
}

Result cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, StreamHandle stream) {
  ENTER("cuMemcpyHtoDAsync");
  // A real driver takes any memory, but copies it then and there.
  if (!driver.isDevice(to, bytes) || !driver.isPinned(from, bytes))
    return ErrorInvalidValue;
  return driver.submit(stream, [&driver, to, from, bytes] {
    driver.bytesToDevice += bytes;
    return driver.copy(reinterpret_cast<void *>(to), from, bytes);
  });
}

Result cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, StreamHandle stream) {
  ENTER("cuMemcpyDtoHAsync");
  if (!driver.isDevice(from, bytes) || !driver.isPinned(to, bytes))
    return ErrorInvalidValue;
  return driver.submit(stream, [&driver, to, from, bytes] {
    driver.bytesToHost += bytes;
    return driver.copy(to, reinterpret_cast<const void *>(from), bytes);
  });
}

Result cuMemsetD8Async(DevicePointer to, unsigned char value, size_t bytes, StreamHandle stream) {
  ENTER("cuMemsetD8Async");
  if (!driver.isDevice(to, bytes))
    return ErrorInvalidValue;
  return driver.submit(stream, [&driver, to, value, bytes] {
    std::vector<unsigned char> filled(bytes, value);
    return driver.copy(reinterpret_cast<void *>(to), filled.data(), bytes);
  });
}

Result cuStreamCreate(StreamHandle *stream, unsigned flags) {
  ENTER("cuStreamCreate");
  *stream = new StreamState;
  driver.streams.insert(*stream);
  return Success;
}

Result cuStreamSynchronize(StreamHandle stream) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.mutex);
  Result failure = driver.enter("cuStreamSynchronize");
  if (!driver.streams.count(stream) || stream->capturing)
    return ErrorInvalidHandle;
  Result result = driver.drain(stream);
  return failure != Success ? failure : result;
}

Result cuStreamDestroy_v2(StreamHandle stream) {
  ENTER_RELEASE("cuStreamDestroy");
  if (driver.streams.erase(stream) == 0)
    return ErrorInvalidHandle;
  delete stream;
  return failure;
}

Result cuLaunchKernel(FunctionHandle function, unsigned gridX, unsigned gridY, unsigned gridZ,
                      unsigned blockX, unsigned blockY, unsigned blockZ, unsigned shared,
                      StreamHandle stream, void **parameters, void **extra) {
  ENTER("cuLaunchKernel");
  uint64_t threads = uint64_t(blockX) * blockY * blockZ;
  if (!function || extra || gridX == 0 || gridY == 0 || gridZ == 0 || gridX > 0x7fffffff ||
      threads == 0 || threads > uint64_t(driver.settings.threads))
    return ErrorInvalidValue;
  if (shared > function->dynamicShared || threads > function->kernel->maxThreads)
    return ErrorLaunchOutOfResources;
  // Parameters are copied now.
  std::vector<std::byte> bytes(function->kernel->paramBytes);
  for (size_t i = 0; i < function->kernel->params.size(); ++i) {
    auto [offset, size] = function->kernel->params[i];
    std::memcpy(bytes.data() + offset, parameters[i], size);
  }
  return driver.submit(stream, [&driver, function, gridX, gridY, gridZ, blockX, blockY, blockZ,
                                shared, bytes = std::move(bytes)] {
    return driver.launch(*function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, shared, bytes);
  });
}

Result cuStreamBeginCapture_v2(StreamHandle stream, int mode) {
  ENTER("cuStreamBeginCapture");
  if (!driver.streams.count(stream) || stream->capturing || !stream->waiting.empty())
    return ErrorInvalidHandle;
  stream->capturing = true;
  return Success;
}

Result cuStreamEndCapture(StreamHandle stream, GraphHandle *graph) {
  Driver &driver = Driver::get();
  std::lock_guard guard(driver.mutex);
  Result failure = driver.enter("cuStreamEndCapture");
  if (!driver.streams.count(stream) || !stream->capturing)
    return ErrorInvalidHandle;
  stream->capturing = false;
  std::vector<Operation> captured = std::move(stream->waiting);
  stream->waiting.clear();
  if (failure != Success)
    return failure;
  *graph = new GraphState{std::move(captured)};
  driver.graphs.insert(*graph);
  return Success;
}

Result cuGraphInstantiateWithFlags(GraphExecHandle *exec, GraphHandle graph,
                                   unsigned long long flags) {
  ENTER("cuGraphInstantiateWithFlags");
  if (!driver.graphs.count(graph))
    return ErrorInvalidHandle;
  *exec = new GraphExecState{graph->operations};
  driver.execs.insert(*exec);
  return Success;
}

Result cuGraphLaunch(GraphExecHandle exec, StreamHandle stream) {
  ENTER("cuGraphLaunch");
  if (!driver.execs.count(exec))
    return ErrorInvalidHandle;
  for (const Operation &operation : exec->operations)
    if (Result result = driver.submit(stream, operation); result != Success)
      return result;
  return Success;
}

Result cuGraphExecDestroy(GraphExecHandle exec) {
  ENTER_RELEASE("cuGraphExecDestroy");
  if (driver.execs.erase(exec) == 0)
    return ErrorInvalidHandle;
  delete exec;
  return failure;
}

Result cuGraphDestroy(GraphHandle graph) {
  ENTER_RELEASE("cuGraphDestroy");
  if (driver.graphs.erase(graph) == 0)
    return ErrorInvalidHandle;
  delete graph;
  return failure;
}

// For tests, found by name in the opened library.

/// Settings as FAKE_CUDA spells them; counters begin anew, what is alive stays. 0: not understood.
int fakeCudaConfigure(const char *settings) {
  std::lock_guard guard(Driver::get().mutex);
  return Driver::get().configure(settings);
}

/// Allocations, modules, streams, graphs and retained contexts that nobody has given back.
unsigned long long fakeCudaLive() {
  std::lock_guard guard(Driver::get().mutex);
  return Driver::get().live();
}

/// Bytes that copies brought to the host, and to devices, since the settings.
unsigned long long fakeCudaBytesToHost() {
  std::lock_guard guard(Driver::get().mutex);
  return Driver::get().bytesToHost;
}
unsigned long long fakeCudaBytesToDevice() {
  std::lock_guard guard(Driver::get().mutex);
  return Driver::get().bytesToDevice;
}

/// How often an entry point (without _v2) was called since the settings.
unsigned fakeCudaCalls(const char *entry) {
  std::lock_guard guard(Driver::get().mutex);
  return Driver::get().calls[entry];
}
}

/// Every entry point that the runtime looks up is here, with the type that it expects.
[[maybe_unused]] static const Api entries = [] {
  Api api;
  api.init.function = cuInit;
  api.driverGetVersion.function = cuDriverGetVersion;
  api.getErrorName.function = cuGetErrorName;
  api.getErrorString.function = cuGetErrorString;
  api.deviceGetCount.function = cuDeviceGetCount;
  api.deviceGet.function = cuDeviceGet;
  api.deviceGetName.function = cuDeviceGetName;
  api.deviceGetAttribute.function = cuDeviceGetAttribute;
  api.deviceTotalMem.function = cuDeviceTotalMem_v2;
  api.primaryCtxRetain.function = cuDevicePrimaryCtxRetain;
  api.primaryCtxRelease.function = cuDevicePrimaryCtxRelease_v2;
  api.ctxSetCurrent.function = cuCtxSetCurrent;
  api.memGetInfo.function = cuMemGetInfo_v2;
  api.moduleLoad.function = cuModuleLoadDataEx;
  api.moduleUnload.function = cuModuleUnload;
  api.moduleGetFunction.function = cuModuleGetFunction;
  api.funcGetAttribute.function = cuFuncGetAttribute;
  api.funcSetAttribute.function = cuFuncSetAttribute;
  api.memAlloc.function = cuMemAlloc_v2;
  api.memFree.function = cuMemFree_v2;
  api.memHostAlloc.function = cuMemHostAlloc;
  api.memFreeHost.function = cuMemFreeHost;
  api.memcpyToDevice.function = cuMemcpyHtoDAsync_v2;
  api.memcpyToHost.function = cuMemcpyDtoHAsync_v2;
  api.memset.function = cuMemsetD8Async;
  api.streamCreate.function = cuStreamCreate;
  api.streamSynchronize.function = cuStreamSynchronize;
  api.streamDestroy.function = cuStreamDestroy_v2;
  api.launchKernel.function = cuLaunchKernel;
  api.streamBeginCapture.function = cuStreamBeginCapture_v2;
  api.streamEndCapture.function = cuStreamEndCapture;
  api.graphInstantiate.function = cuGraphInstantiateWithFlags;
  api.graphLaunch.function = cuGraphLaunch;
  api.graphExecDestroy.function = cuGraphExecDestroy;
  api.graphDestroy.function = cuGraphDestroy;
  return api;
}();
