#include "runtime/device/cuda/Kernels.h"

#include "runtime/support/Json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>

namespace gemma::cuda {

std::optional<Architecture> Architecture::parse(std::string_view name) {
  if (!name.starts_with("sm_"))
    return std::nullopt;
  name.remove_prefix(3);
  Architecture found;
  if (name.ends_with("a") || name.ends_with("f")) {
    found.specific = true;
    name.remove_suffix(1);
  }
  int number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (name.size() < 2 || error != std::errc() || end != name.data() + name.size() || number < 10)
    return std::nullopt;
  found.major = number / 10;
  found.minor = number % 10;
  return found;
}

bool Architecture::runsOn(int deviceMajor, int deviceMinor) const {
  return major == deviceMajor && (specific ? minor == deviceMinor : minor <= deviceMinor);
}

bool Architecture::compilesFor(int deviceMajor, int deviceMinor) const {
  if (specific)
    return major == deviceMajor && minor == deviceMinor;
  return std::tuple(major, minor) <= std::tuple(deviceMajor, deviceMinor);
}

std::string_view ptxTarget(std::string_view ptx) {
  constexpr std::string_view directive = ".target ";
  size_t at = ptx.find(directive);
  if (at == std::string_view::npos)
    return {};
  ptx.remove_prefix(at + directive.size());
  return ptx.substr(0, ptx.find_first_of(", \r\n"));
}

namespace {

/// Code of one kind for one architecture.
struct Source {
  bool ptx;
  std::string_view target;
  std::vector<const KernelImage *> images; ///< one a need

  std::string name() const { return (ptx ? "PTX for " : "") + std::string(target); }
};

/// What there is for all kernels, by name.
std::vector<Source> completeSources(std::span<const KernelImage> images,
                                    std::span<const KernelNeed> needs) {
  std::vector<Source> sources;
  for (const KernelImage &image : images) {
    std::string_view target = image.ptx ? ptxTarget(image.bytes) : image.target;
    auto known = std::ranges::find_if(sources, [&](const Source &source) {
      return source.ptx == image.ptx && source.target == target;
    });
    if (known == sources.end())
      known = sources.insert(known, {image.ptx, target, {}});
    known->images.push_back(&image);
  }
  for (Source &source : sources) {
    std::vector<const KernelImage *> inOrder;
    for (const KernelNeed &need : needs)
      for (const KernelImage *image : source.images)
        if (image->kernel == need.name) {
          inOrder.push_back(image);
          break;
        }
    source.images = std::move(inOrder);
  }
  std::erase_if(sources,
                [&](const Source &source) { return source.images.size() != needs.size(); });
  return sources;
}

/// Those that fit the device, the best first.
std::vector<Source> fitting(std::vector<Source> sources, const DeviceFacts &facts) {
  std::erase_if(sources, [&](const Source &source) {
    std::optional<Architecture> made = Architecture::parse(source.target);
    return !made || !(source.ptx ? made->compilesFor(facts.major, facts.minor)
                                 : made->runsOn(facts.major, facts.minor));
  });
  std::ranges::sort(sources, [](const Source &a, const Source &b) {
    Architecture first = *Architecture::parse(a.target), second = *Architecture::parse(b.target);
    return std::tuple(a.ptx, -first.major, -first.minor, !first.specific) <
           std::tuple(b.ptx, -second.major, -second.minor, !second.specific);
  });
  return sources;
}

/// Loads kernels on one device.
class Loader {
public:
  explicit Loader(const std::shared_ptr<const Device> &device) : device(device) {}

  /// Whether load() failed because the driver does not take the code, so that other code may do.
  bool codeRefused = false;

  Status checkNeed(const KernelNeed &need) const {
    const DeviceFacts &facts = device->facts();
    if (need.threads == 0 || need.threads > facts.threadsPerBlock)
      return refuse(need, "threads", need.threads, facts.threadsPerBlock);
    if (need.sharedBytes > facts.sharedBytesPerBlock)
      return refuse(need, "bytes of shared memory", need.sharedBytes, facts.sharedBytesPerBlock);
    return {};
  }

  Expected<LoadedKernel> load(const KernelNeed &need, const KernelImage &image) {
    const Api &cu = device->api();
    std::string where = "kernel " + need.name + ": ";
    std::string bytes(image.bytes); // with a zero byte behind it, where PTX ends
    std::array<char, 8192> log{};
    std::array<int, 2> options = {JitErrorLogBuffer, JitErrorLogBufferBytes};
    std::array<void *, 2> values = {log.data(),
                                    reinterpret_cast<void *>(uintptr_t(log.size() - 1))};
    ModuleHandle handle = nullptr;
    Result result = Success;
    Status loaded =
        device->callFor(result, cu.moduleLoad, &handle, static_cast<const void *>(bytes.c_str()),
                        unsigned(options.size()), options.data(), values.data());
    // Drivers have several words for machine code of another device (200, 209, 300) and for PTX
    // that they cannot compile.
    static constexpr Result refusals[] = {ErrorInvalidImage,          ErrorNoBinaryForGpu,
                                          ErrorInvalidSource,         ErrorInvalidPtx,
                                          ErrorUnsupportedPtxVersion, ErrorJitCompilerNotFound,
                                          ErrorJitCompilationDisabled};
    codeRefused = std::ranges::find(refusals, result) != std::end(refusals);
    if (!loaded) {
      Error error = loaded.error();
      error.message = where + error.message;
      if (log[0])
        error.message += "\n" + std::string(log.data());
      return error;
    }
    LoadedKernel kernel{need, {device, handle, &Api::moduleUnload}, nullptr};
    if (Status status =
            device->call(cu.moduleGetFunction, &kernel.function, handle, need.name.c_str());
        !status)
      return located(where, status);
    if (Status status = prepare(kernel); !status)
      return located(where, status);
    return kernel;
  }

private:
  /// Compares what the code turned out to need with what the device gives.
  Status prepare(LoadedKernel &kernel) const {
    const Api &cu = device->api();
    const KernelNeed &need = kernel.need;
    int threads = 0, fixed = 0;
    for (auto [value, attribute] : {std::pair(&threads, FunctionMaxThreadsPerBlock),
                                    std::pair(&fixed, FunctionStaticSharedBytes)})
      if (Status status = device->call(cu.funcGetAttribute, value, int(attribute), kernel.function);
          !status)
        return status;
    if (threads < 0 || need.threads > uint64_t(threads))
      return badInput("needs " + std::to_string(need.threads) + " threads a block, its registers " +
                      "leave room for " + std::to_string(threads) + " on " + device->title());
    uint64_t shared = need.sharedBytes + uint64_t(std::max(fixed, 0));
    if (shared > device->facts().sharedBytesPerBlock)
      return badInput("needs " + std::to_string(shared) + " bytes of shared memory a block, " +
                      device->title() + " gives at most " +
                      std::to_string(device->facts().sharedBytesPerBlock));
    if (shared > ordinarySharedBytes)
      return device->call(cu.funcSetAttribute, kernel.function, int(FunctionMaxDynamicSharedBytes),
                          int(need.sharedBytes));
    return {};
  }

  static Error located(const std::string &where, const Status &status) {
    return {status.error().kind, where + status.error().message};
  }
  Error refuse(const KernelNeed &need, const char *what, uint64_t wanted, uint64_t most) const {
    return badInput("kernel " + need.name + ": needs " + std::to_string(wanted) + " " + what +
                    " a block, " + device->title() + " gives at most " + std::to_string(most));
  }

  const std::shared_ptr<const Device> &device;
};

Error nothingFits(const Device &device, const std::vector<Source> &sources) {
  const DeviceFacts &facts = device.facts();
  std::string names;
  for (const Source &source : sources)
    names += (names.empty() ? "" : ", ") + quoteForMessage(source.name());
  return badInput(device.title() + ": no code for compute capability " +
                  std::to_string(facts.major) + "." + std::to_string(facts.minor) +
                  ": the artifact has " + (names.empty() ? "none for CUDA devices" : names) +
                  "; with gemma-compile --target ptx-sm_80 it runs on 8.0 and newer");
}

/// `refused`: what the driver said of each source that fits the device.
Error nothingTaken(const Device &device, const std::vector<Source> &sources,
                   const std::string &refused) {
  int version = device.facts().driverVersion;
  bool hasPtx = std::ranges::any_of(sources, [](const Source &source) { return source.ptx; });
  std::string cuda = std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  return badInput(device.title() + ": expected code that the driver, of CUDA " + cuda +
                  ", takes, and it takes none that the artifact has for the device:\n" + refused +
                  "\na driver of a newer CUDA may do" +
                  (hasPtx ? ""
                          : ", and so may PTX: gemma-compile --target " +
                                std::string(sources.front().target) + ",ptx-sm_80"));
}

} // namespace

Expected<LoadedKernels> loadKernels(const std::shared_ptr<const Device> &device,
                                    std::span<const KernelImage> images,
                                    std::span<const KernelNeed> needs) {
  Loader loader(device);
  std::vector<Source> all = completeSources(images, needs);
  std::vector<Source> sources = fitting(all, device->facts());
  if (sources.empty())
    return nothingFits(*device, all);
  for (const KernelNeed &need : needs)
    if (Status status = loader.checkNeed(need); !status)
      return status;
  std::string refused;
  for (const Source &source : sources) {
    LoadedKernels loaded;
    loaded.code = source.name();
    for (size_t i = 0; i < needs.size(); ++i) {
      Expected<LoadedKernel> kernel = loader.load(needs[i], *source.images[i]);
      if (kernel) {
        loaded.kernels.push_back(std::move(*kernel));
        continue;
      }
      if (!loader.codeRefused)
        return kernel.status();
      refused += (refused.empty() ? "" : "\n") + source.name() + ": " + kernel.error().message;
      break;
    }
    if (loaded.kernels.size() == needs.size())
      return loaded;
  }
  return nothingTaken(*device, sources, refused);
}

} // namespace gemma::cuda
