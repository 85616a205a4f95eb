// Compiles kernels from text, loads the object and calls it: what the tests of host code share.
#pragma once

#include "codegen/cpu/HostCodegen.h"
#include "runtime/abi/KernelAbi.h"
#include "test/unit/LongTests.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace gemma::codegen::test {

/// An array in the memory of a kernel, of "f64", "f32", "bf16", "f16", "i32", "i16" or "i8", read
/// and set as double.
class Buffer {
public:
  Buffer(std::string type, int64_t elements, double fill = 0.0);
  /// Uniform numbers of [-scale, scale], rounded to the type.
  static Buffer random(std::string type, int64_t elements, unsigned seed, double scale = 1.0);
  static Buffer integers(const std::vector<int> &values);

  double get(int64_t i) const;
  void set(int64_t i, double value);
  int64_t size() const { return elements; }
  void *data() { return bytes.data(); }
  const std::string &typeName() const { return type; }
  bool operator==(const Buffer &other) const { return bytes == other.bytes; }

private:
  std::string type;
  int64_t elements;
  std::vector<char> bytes;
};

/// A compiled module, loaded. Of AVX-512, where the processor lacks it, the same IR is compiled to
/// other instructions (WideInstructions.h); what runs neither way is compiled, which checks its
/// object.
class HostModule {
public:
  /// Fails the test when the kernels do not compile.
  HostModule(const std::string &text, const HostIsa &isa);
  ~HostModule();
  HostModule(const HostModule &) = delete;
  bool loaded() const { return library; }
  const std::string &isa() const { return isaName; }

  /// Runs blocks [0, grid), cut into ranges of `range` blocks, on a scratch full of NaN; every
  /// second range on that of the one before, as a worker's later ranges.
  void run(const std::string &kernel, GemmaSizes sizes, std::vector<Buffer *> arguments,
           int64_t grid, int64_t range = 1000000);

private:
  std::string isaName;
  void *library = nullptr;
  std::map<std::string, int64_t> scratchBytes;
};

/// Compiles `text` for every variant and calls `body` with those that run here. Variants for
/// integers are only for kernels of artifacts with quantised weights: `quantised`, or what
/// quantises.
template <typename Body>
void forEachIsa(const std::string &text, Body body, bool quantised = false) {
  quantised |= text.find("kernel.quantize") != std::string::npos;
  for (const HostIsa &isa : hostIsas()) {
    if (isa.onlyForIntegers() && !quantised)
      continue;
    SCOPED_TRACE(isa.name);
    HostModule module(text, isa);
    if (module.loaded())
      body(module);
  }
}

/// max |got − want| / max |want| over both buffers.
double relativeError(const Buffer &got, const std::vector<double> &want);

/// What the arithmetic of a type may lose in a test's short sums.
double tolerance(const std::string &type);

} // namespace gemma::codegen::test
