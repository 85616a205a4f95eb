// What the tests of the emulated device share: compile PTX, launch it, read results.
#pragma once

#include "codegen/emu/EmuCodegen.h"
#include "runtime/device/emu/Launch.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <unistd.h>

namespace gemma::emu::test {

inline std::string readPtx(const std::string &name) {
  std::ifstream file(GEMMA_SOURCE_DIR "/test/data/ptx/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline WorkerPool &pool() {
  static WorkerPool workers(2);
  return workers;
}

/// Compiled and loaded once a text.
inline const Module &moduleOf(const std::string &ptx) {
  static std::map<std::string, Module> modules;
  auto found = modules.find(ptx);
  if (found != modules.end())
    return found->second;
  Expected<codegen::EmuObject> object = codegen::compilePtx(ptx);
  if (!object) {
    ADD_FAILURE() << object.error().message;
    std::abort();
  }
  Expected<Module> module = Module::load(object->bytes, "test");
  if (!module) {
    ADD_FAILURE() << module.error().message;
    std::abort();
  }
  return modules.emplace(ptx, std::move(*module)).first->second;
}

/// Device memory with host access.
template <typename T> struct Buffer {
  Buffer(GlobalMemory &memory, size_t count, const std::string &name, bool readOnly = false)
      : count(count) {
    Expected<void *> got = memory.allocate(count * sizeof(T), name, readOnly);
    EXPECT_TRUE(got.ok());
    data = static_cast<T *>(*got);
  }
  T &operator[](size_t i) { return data[i]; }
  T *data = nullptr;
  size_t count;
};

/// Assembles with ptxas for sm_80 where there is one: what is tested here must be PTX.
inline void expectValidPtx(const std::string &ptx) {
  static const std::string ptxas = [] {
    for (const char *place : {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"})
      if (std::ifstream(place).good())
        return std::string(place);
    return std::string();
  }();
  if (ptxas.empty())
    GTEST_SKIP() << "no ptxas";
  std::string base = testing::TempDir() + "gemma-emu-" + std::to_string(::getpid());
  std::ofstream(base + ".ptx") << ptx;
  std::string command =
      ptxas + " -arch=sm_80 -o " + base + ".cubin " + base + ".ptx 2>" + base + ".log >&2";
  int code = std::system(command.c_str());
  std::ifstream log(base + ".log");
  std::ostringstream messages;
  messages << log.rdbuf();
  EXPECT_EQ(code, 0) << messages.str();
  for (const char *suffix : {".ptx", ".cubin", ".log"})
    std::remove((base + suffix).c_str());
}

inline bool has(const LaunchReport &report, FindingKind kind) {
  for (const Finding &finding : report.findings)
    if (finding.kind == kind)
      return true;
  return false;
}

struct Mode {
  Order order;
  AsyncMode async;
  uint64_t seed;
};
/// Every order with every mode of asynchronous copies.
inline std::vector<Mode> allModes() {
  std::vector<Mode> modes;
  for (Order order : {Order::Forward, Order::Reverse, Order::Random})
    for (AsyncMode async : {AsyncMode::Latest, AsyncMode::Earliest, AsyncMode::Random})
      modes.push_back({order, async, 7 + modes.size()});
  return modes;
}

} // namespace gemma::emu::test
