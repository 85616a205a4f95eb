// What the tests of the emulated device share: compile PTX, launch it, read results.
#pragma once

#include "codegen/emu/EmuCodegen.h"
#include "runtime/device/emu/Launch.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
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

/// A kernel `k` around `body`. It has registers %p, %h, %r, %d (.pred, 16, 32, 64 bits), %f, and in
/// %r0 the thread's number in its block, in %d0 the address of element `thread` of `in`, in %d1
/// that of `out` (64-bit elements, counted over all blocks), in %d2 and %d3 those arrays' starts.
inline std::string smallKernel(const std::string &body, const std::string &moduleVariables = "") {
  return ".version 7.8\n.target sm_80\n.address_size 64\n" + moduleVariables +
         "\n.visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
         ".reg .pred %p<16>; .reg .b16 %h<16>; .reg .b32 %r<64>; .reg .b64 %d<64>;\n"
         ".reg .f32 %f<16>;\n"
         "ld.param.u64 %d2, [in]; ld.param.u64 %d3, [out];\n"
         "mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x;\n"
         "mad.lo.u32 %r1, %r1, %r2, %r0; mul.wide.u32 %d1, %r1, 8;\n"
         "add.s64 %d0, %d2, %d1; add.s64 %d1, %d3, %d1;\n" +
         body + "\nret;\n}\n";
}

/// Runs a small kernel over `in` (shorter inputs are repeated) and keeps what it left in `out`.
struct SmallRun {
  SmallRun(const std::string &text, uint32_t threads, std::vector<uint64_t> in = {0},
           uint32_t blocks = 1, LaunchOptions options = {}, uint32_t dynamicShared = 0) {
    size_t count = size_t(threads) * blocks;
    GlobalMemory memory;
    Buffer<uint64_t> input(memory, count, "in"), output(memory, count, "out");
    for (size_t i = 0; i < count; ++i) {
      input[i] = in[i % in.size()];
      output[i] = 0;
    }
    ParamBuilder params;
    params.add(input.data).add(output.data);
    Expected<LaunchReport> got = launch(moduleOf(text), "k", {blocks, 1, 1}, {threads, 1, 1},
                                        dynamicShared, params.bytes(), memory, pool(), options);
    EXPECT_TRUE(got.ok()) << got.error().message;
    if (got.ok())
      report = std::move(*got);
    out.assign(output.data, output.data + count);
  }
  uint64_t operator[](size_t i) const { return out[i]; }
  LaunchReport report;
  std::vector<uint64_t> out;
};

} // namespace gemma::emu::test
