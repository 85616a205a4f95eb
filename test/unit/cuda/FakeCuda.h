// The fake driver library (test/fake-cuda) as tests use it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace gemma::test {

inline bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}
inline bool startsWith(const std::string &text, const std::string &part) {
  return text.starts_with(part);
}

/// Makes the runtime open the fake driver, with settings as FAKE_CUDA spells them.
class FakeCuda {
public:
  explicit FakeCuda(const std::string &settings = "") {
    ::setenv("GEMMA_LIBCUDA", FAKE_CUDA_LIBRARY, 1);
    library = ::dlopen(FAKE_CUDA_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    EXPECT_TRUE(library) << ::dlerror();
    configure(settings);
  }
  ~FakeCuda() { ::unsetenv("GEMMA_LIBCUDA"); }

  /// Counters begin anew too.
  void configure(const std::string &settings) const {
    EXPECT_TRUE(entry<int(const char *)>("fakeCudaConfigure")(settings.c_str())) << settings;
  }
  /// Allocations, modules, streams, graphs, contexts that nobody has given back.
  unsigned long long live() const { return entry<unsigned long long()>("fakeCudaLive")(); }
  /// What copies brought to the host, and to the device, since then.
  unsigned long long bytesToHost() const {
    return entry<unsigned long long()>("fakeCudaBytesToHost")();
  }
  unsigned long long bytesToDevice() const {
    return entry<unsigned long long()>("fakeCudaBytesToDevice")();
  }
  unsigned calls(const char *name) const {
    return entry<unsigned(const char *)>("fakeCudaCalls")(name);
  }

private:
  template <typename Function> Function *entry(const char *name) const {
    return reinterpret_cast<Function *>(::dlsym(library, name));
  }
  void *library = nullptr;
};

} // namespace gemma::test
