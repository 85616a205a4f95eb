#include "test/fake-cuda/FakeDriver.h"

#include "codegen/emu/EmuCodegen.h"
#include "runtime/device/cuda/Kernels.h"
#include "runtime/device/emu/EmuExecutor.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

namespace gemma::cuda::fake {

thread_local ContextState *current = nullptr;

bool Settings::parse(const std::string &text, Settings &settings) {
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    size_t equal = word.find('=');
    std::string key = word.substr(0, equal);
    std::string value = equal == std::string::npos ? "" : word.substr(equal + 1);
    if (key == "devices")
      settings.devices = std::atoi(value.c_str());
    else if (key == "driver")
      settings.driver = std::atoi(value.c_str());
    else if (key == "cc") {
      if (std::sscanf(value.c_str(), "%d.%d", &settings.major, &settings.minor) != 2)
        return false;
    } else if (key == "memory")
      settings.memory = std::strtoull(value.c_str(), nullptr, 10);
    else if (key == "shared")
      settings.shared = std::atoi(value.c_str());
    else if (key == "threads")
      settings.threads = std::atoi(value.c_str());
    else if (key == "report")
      settings.report = value == "1";
    else if (key == "fail") {
      Failure failure;
      char name[64] = {};
      if (std::sscanf(value.c_str(), "%63[^:]:%u:%d", name, &failure.nth, &failure.code) != 3)
        return false;
      failure.entry = name;
      settings.failures.push_back(failure);
    } else if (!word.empty()) {
      return false;
    }
  }
  return true;
}

Driver &Driver::get() {
  static Driver driver;
  return driver;
}

Driver::Driver() {
  if (const char *text = std::getenv("FAKE_CUDA"))
    if (!configure(text))
      std::fprintf(stderr, "fake CUDA: FAKE_CUDA not understood: %s\n", text);
}

Driver::~Driver() {
  if (settings.report)
    std::fprintf(stderr, "fake CUDA: launches %u, graph launches %u, alive: %s\n",
                 calls["cuLaunchKernel"], calls["cuGraphLaunch"], liveText().c_str());
}

bool Driver::configure(const char *text) {
  Settings made;
  if (!Settings::parse(text, made))
    return false;
  settings = made;
  calls.clear();
  bytesToHost = bytesToDevice = 0;
  lost = Success;
  initialised = context.retained != 0;
  return true;
}

Result Driver::enter(const char *entry, bool needsContext) {
  std::string name(entry);
  unsigned number = ++calls[name];
  for (const Failure &failure : settings.failures)
    if (failure.entry == name && failure.nth == number) {
      // The errors that a context does not survive.
      if (failure.code >= ErrorIllegalAddress && failure.code <= ErrorLaunchFailed &&
          failure.code != ErrorLaunchOutOfResources)
        lost = failure.code;
      return failure.code;
    }
  if (lost != Success)
    return lost;
  if (!initialised && name != "cuInit" && name != "cuDriverGetVersion")
    return ErrorNotInitialized;
  if (needsContext && (current != &context || context.retained == 0))
    return ErrorInvalidContext;
  return Success;
}

Result Driver::protect(const Allocation &allocation, bool accessible) const {
  int rights = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  return ::mprotect(allocation.memory, allocation.mapped, rights) == 0 ? Success : 999;
}

void Driver::open(bool accessible) const {
  for (const auto &[pointer, allocation] : memory)
    (void)protect(allocation, accessible);
}

Result Driver::allocate(DevicePointer *out, size_t bytes) {
  if (!out || bytes == 0)
    return ErrorInvalidValue;
  uint64_t used = 0;
  for (const auto &[pointer, allocation] : memory)
    used += allocation.bytes;
  if (bytes > settings.memory - std::min(settings.memory, used))
    return ErrorOutOfMemory;
  Allocation made{nullptr, bytes, (bytes + 4095) / 4096 * 4096};
  made.memory = ::mmap(nullptr, made.mapped, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made.memory == MAP_FAILED)
    return ErrorOutOfMemory;
  // What nobody wrote is NaN.
  std::memset(made.memory, 0xff, made.mapped);
  if (Result result = protect(made, false); result != Success)
    return result;
  *out = reinterpret_cast<DevicePointer>(made.memory);
  memory[*out] = made;
  return Success;
}

Result Driver::release(DevicePointer pointer) {
  auto found = memory.find(pointer);
  if (found == memory.end())
    return ErrorInvalidValue;
  ::munmap(found->second.memory, found->second.mapped);
  memory.erase(found);
  return Success;
}

Result Driver::allocatePinned(void **out, size_t bytes) {
  if (!out || bytes == 0)
    return ErrorInvalidValue;
  Allocation made{std::malloc(bytes), bytes, bytes};
  if (!made.memory)
    return ErrorOutOfMemory;
  std::memset(made.memory, 0xff, bytes);
  *out = made.memory;
  pinned[*out] = made;
  return Success;
}

Result Driver::releasePinned(void *pointer) {
  if (pinned.erase(pointer) == 0)
    return ErrorInvalidValue;
  std::free(pointer);
  return Success;
}

/// Whether [address, address + bytes) is inside the allocation that begins at or before it.
template <typename Key>
static bool inside(const std::map<Key, Allocation> &allocations, Key key, size_t bytes) {
  auto after = allocations.upper_bound(key);
  if (after == allocations.begin())
    return false;
  const Allocation &allocation = std::prev(after)->second;
  uint64_t offset = uint64_t(key) - reinterpret_cast<uint64_t>(allocation.memory);
  return offset <= allocation.bytes && bytes <= allocation.bytes - offset;
}

bool Driver::isDevice(DevicePointer pointer, size_t bytes) const {
  return inside(memory, pointer, bytes);
}

bool Driver::isPinned(const void *pointer, size_t bytes) const {
  auto after = pinned.upper_bound(const_cast<void *>(pointer));
  if (after == pinned.begin())
    return false;
  const Allocation &allocation = std::prev(after)->second;
  auto offset =
      uint64_t(static_cast<const char *>(pointer) - static_cast<const char *>(allocation.memory));
  return offset <= allocation.bytes && bytes <= allocation.bytes - offset;
}

Result Driver::submit(StreamState *stream, Operation operation) {
  if (!streams.count(stream))
    return ErrorInvalidHandle;
  stream->waiting.push_back(std::move(operation));
  return Success;
}

Result Driver::drain(StreamState *stream) {
  std::vector<Operation> operations = std::move(stream->waiting);
  stream->waiting.clear();
  for (const Operation &operation : operations)
    if (lost == Success)
      lost = operation();
  return lost;
}

Result Driver::copy(void *to, const void *from, size_t bytes) {
  open(true);
  std::memcpy(to, from, bytes);
  open(false);
  return Success;
}

Result Driver::launch(const FunctionState &function, std::array<uint32_t, 3> grid,
                      std::array<uint32_t, 3> block, uint32_t shared,
                      const std::vector<std::byte> &params) {
  if (!pool)
    pool = std::make_unique<WorkerPool>(WorkerPool::availableThreads());
  const char *text = std::getenv("GEMMA_EMU");
  Expected<emu::LaunchOptions> options = emu::launchOptionsFrom(text ? text : "");
  emu::GlobalMemory global;
  for (const auto &[pointer, allocation] : memory)
    if (Status status = global.add(allocation.memory, allocation.bytes, "an allocation"); !status)
      return 999;
  if (!options)
    return 999;
  open(true);
  Expected<emu::LaunchReport> report =
      emu::launch(function.module->module, function.kernel->name, grid, block, shared, params,
                  global, *pool, *options);
  open(false);
  if (report && report->completed && report->findings.empty())
    return Success;
  std::fprintf(stderr, "fake CUDA: %s\n",
               report ? report->messages().c_str() : report.error().message.c_str());
  return ErrorIllegalAddress;
}

Result Driver::loadModule(ModuleState **out, const char *image, std::string &log) {
  // Machine code is faked as PTX behind a line that names the architecture.
  constexpr std::string_view machineCode = "FAKE CUBIN ";
  std::string_view ptx(image);
  bool fits = false;
  if (ptx.starts_with(machineCode)) {
    size_t end = ptx.find('\n');
    if (end == std::string_view::npos)
      return ErrorInvalidImage;
    auto made = Architecture::parse(ptx.substr(machineCode.size(), end - machineCode.size()));
    ptx.remove_prefix(end + 1);
    fits = made && made->runsOn(settings.major, settings.minor);
    if (!fits)
      return ErrorNoBinaryForGpu;
  } else if (ptx.find(".version") == std::string_view::npos) {
    return ErrorInvalidImage;
  } else {
    auto made = Architecture::parse(ptxTarget(ptx));
    if (!made || !made->compilesFor(settings.major, settings.minor)) {
      log = "ptxas fatal   : PTX for " + std::string(ptxTarget(ptx)) + " on an older device";
      return ErrorInvalidPtx;
    }
  }
  auto known = compiled.find(std::string(ptx));
  if (known == compiled.end()) {
    Expected<codegen::EmuObject> object = codegen::compilePtx(ptx);
    if (!object) {
      log = object.error().message;
      return ErrorInvalidPtx;
    }
    Expected<emu::Module> module = emu::Module::load(object->bytes, "PTX");
    if (!module) {
      log = module.error().message;
      return ErrorInvalidPtx;
    }
    known = compiled.emplace(std::string(ptx), std::move(*module)).first;
  }
  *out = new ModuleState{known->second, {}};
  modules.insert(*out);
  return Success;
}

uint64_t Driver::live() const {
  return memory.size() + pinned.size() + modules.size() + streams.size() + graphs.size() +
         execs.size() + uint64_t(context.retained);
}

std::string Driver::liveText() const {
  if (live() == 0)
    return "nothing";
  std::string text;
  auto add = [&](const char *what, size_t count) {
    if (count)
      text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  };
  add("allocations", memory.size());
  add("pinned allocations", pinned.size());
  add("modules", modules.size());
  add("streams", streams.size());
  add("graphs", graphs.size());
  add("executable graphs", execs.size());
  add("contexts", size_t(context.retained));
  return text;
}

} // namespace gemma::cuda::fake
