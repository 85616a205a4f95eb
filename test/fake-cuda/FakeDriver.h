// What the fake driver library keeps: settings, live objects, memory, streams.
//
// It executes the kernels' PTX by the emulated device, on memory that nobody can touch except while
// the driver itself works: a runtime that takes a device's address for the host's dies. Streams do
// nothing before somebody waits for them, the latest moment that CUDA allows: a runtime that does
// not wait, or changes a buffer that is still to be copied, computes something else.
#pragma once

#include "runtime/device/cuda/Api.h"
#include "runtime/device/emu/Launch.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace gemma::cuda {

using Operation = std::function<Result()>;

struct ModuleState {
  emu::Module module;
  std::map<std::string, std::unique_ptr<FunctionState>> functions;
};
struct FunctionState {
  const ModuleState *module;
  const emu::Module::Kernel *kernel;
  uint64_t dynamicShared = ordinarySharedBytes; ///< the most that a launch may ask for
};
struct StreamState {
  std::vector<Operation> waiting;
  bool capturing = false;
};
struct GraphState {
  std::vector<Operation> operations;
};
struct GraphExecState {
  std::vector<Operation> operations;
};
struct ContextState {
  int retained = 0;
};

namespace fake {

/// A failure to inject: call number `nth` of an entry point, from 1 on, returns `code`.
struct Failure {
  std::string entry; ///< without _v2
  unsigned nth = 1;
  Result code = 0;
};

/// From the environment variable FAKE_CUDA or fakeCudaConfigure(): "devices=0,driver=11040,cc=8.6,
/// memory=BYTES,shared=BYTES,threads=N,fail=NAME:NTH:CODE,report=1".
struct Settings {
  int devices = 1;
  int driver = 13000;
  int major = 9, minor = 0;
  uint64_t memory = uint64_t(1) << 30;
  int shared = 232448;
  int threads = 1024;
  bool report = false; ///< at exit: what was launched and what is still alive
  std::vector<Failure> failures;

  /// False if a word is not understood.
  static bool parse(const std::string &text, Settings &settings);
};

struct Allocation {
  void *memory = nullptr;
  size_t bytes = 0, mapped = 0;
};

/// The driver. One a process; everything under its mutex.
class Driver {
public:
  static Driver &get();
  ~Driver();

  std::recursive_mutex mutex;
  Settings settings;
  bool initialised = false;
  Result lost = Success; ///< the error after which every call fails
  std::map<std::string, unsigned> calls;
  uint64_t bytesToHost = 0, bytesToDevice = 0; ///< copied by streams since the settings

  std::map<DevicePointer, Allocation> memory;
  std::map<void *, Allocation> pinned;
  std::set<ModuleState *> modules;
  std::set<StreamState *> streams;
  std::set<GraphState *> graphs;
  std::set<GraphExecState *> execs;
  ContextState context;

  /// Counts the call and says what it must return at once.
  Result enter(const char *entry, bool needsContext = true);
  /// Settings anew; what is alive stays.
  bool configure(const char *text);

  Result allocate(DevicePointer *out, size_t bytes);
  Result release(DevicePointer pointer);
  Result allocatePinned(void **out, size_t bytes);
  Result releasePinned(void *pointer);
  /// Whether [pointer, pointer + bytes) is inside one allocation.
  bool isDevice(DevicePointer pointer, size_t bytes) const;
  bool isPinned(const void *pointer, size_t bytes) const;

  /// Puts an operation into a stream, or into the graph that is being captured.
  Result submit(StreamState *stream, Operation operation);
  /// Does what waits in a stream. An error there is the device's end.
  Result drain(StreamState *stream);

  /// With the device's memory open.
  Result copy(void *to, const void *from, size_t bytes);
  Result launch(const FunctionState &function, std::array<uint32_t, 3> grid,
                std::array<uint32_t, 3> block, uint32_t shared,
                const std::vector<std::byte> &params);

  Result loadModule(ModuleState **out, const char *image, std::string &log);

  uint64_t live() const;
  std::string liveText() const;

private:
  Driver();
  void open(bool accessible) const;
  Result protect(const Allocation &allocation, bool accessible) const;

  std::unique_ptr<WorkerPool> pool;
  std::map<std::string, emu::Module> compiled; ///< by PTX
};

/// The context that is current in this thread.
extern thread_local ContextState *current;

} // namespace fake
} // namespace gemma::cuda
