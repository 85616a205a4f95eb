#include "runtime/device/KernelObject.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace gemma {

/// Writes all bytes and forbids any further change.
static bool fillAndSeal(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote < 0)
      return false;
    bytes.remove_prefix(size_t(wrote));
  }
  return ::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

Expected<KernelObject> KernelObject::load(std::string_view elf, const std::string &where) {
  if (Status status = checkKernelElf(elf, where); !status)
    return status;
  int file = ::memfd_create("gemma-kernels", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0)
    return badInput(where + ": cannot create a file in memory: " + std::strerror(errno));
  if (!fillAndSeal(file, elf)) {
    Error error = badInput(where + ": cannot write to memory: " + std::strerror(errno));
    ::close(file);
    return error;
  }
  std::string path = "/proc/self/fd/" + std::to_string(file);
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char *reason = handle ? nullptr : ::dlerror();
  if (!handle) {
    ::close(file);
    return badInput(where + ": the system's loader refuses it: " + (reason ? reason : "?"));
  }
  KernelObject object;
  object.where = where;
  // The file stays open as long as the object is loaded: the loader knows objects by their path,
  // and would take the next file with this number for this one.
  object.handle = std::shared_ptr<void>(handle, [file](void *h) {
    ::dlclose(h);
    ::close(file);
  });
  return object;
}

Expected<GemmaKernel> KernelObject::kernel(const std::string &name) const {
  void *symbol = ::dlsym(handle.get(), name.c_str());
  if (!symbol)
    return badInput(where + ": no kernel " + name);
  return reinterpret_cast<GemmaKernel>(symbol);
}

} // namespace gemma
