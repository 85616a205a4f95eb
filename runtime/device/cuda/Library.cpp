#include "runtime/device/cuda/Library.h"

#include <cstdlib>
#include <dlfcn.h>

namespace gemma::cuda {

Expected<std::shared_ptr<const Library>> Library::open() {
  const char *given = std::getenv("GEMMA_LIBCUDA");
  const char *path = given && *given ? given : "libcuda.so.1";
  void *handle = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = ::dlerror();
    return badInput(std::string("no CUDA driver: cannot open ") + path + ": " +
                    (why ? why : "unknown reason"));
  }
  auto library = std::make_shared<Library>();
  std::string missing;
  library->table.forEach([&]<typename... Args>(Entry<Args...> &entry) {
    entry.function = reinterpret_cast<Result (*)(Args...)>(::dlsym(handle, entry.name));
    if (!entry.function)
      missing += (missing.empty() ? "" : ", ") + std::string(entry.name);
  });
  if (!missing.empty())
    return badInput(std::string("CUDA driver too old: ") + path + " has no " + missing);
  return std::shared_ptr<const Library>(std::move(library));
}

Error Library::error(const char *entry, Result result) const {
  std::string name(entry);
  if (name.ends_with("_v2"))
    name.resize(name.size() - 3);
  const char *code = nullptr, *text = nullptr;
  if (table.getErrorName.function(result, &code) != Success || !code)
    return badInput(name + ": error " + std::to_string(result));
  if (table.getErrorString.function(result, &text) != Success || !text)
    return badInput(name + ": " + code);
  return badInput(name + ": " + code + " (" + text + ")");
}

} // namespace gemma::cuda
