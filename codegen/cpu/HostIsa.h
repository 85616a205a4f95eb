// The instruction sets that one artifact carries host code for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gemma::codegen {

/// A feature set of x86-64, not a level name: what a kernel variant may use.
struct HostIsa {
  std::string name;     ///< "baseline", "avx2", "avx512", "avx512vnni"
  std::string features; ///< LLVM feature string over `-mcpu=x86-64`
  int64_t vectorBits;   ///< of the widest register
  int64_t registers;    ///< vector registers
  bool fma;             ///< without it, multiply and add round separately
  bool convertsHalves;  ///< f16 to f32
  /// Products of unsigned and signed bytes: none, added in pairs (pmaddubsw), in quads (vpdpbusd).
  enum class ByteDot { None, Pairs, Quads } byteDot;
  /// CPU features in LLVM's spelling: all must be there for the variant to run.
  std::vector<std::string> needs;
  /// Whether its code differs from a narrower variant's only where integers are multiplied.
  bool onlyForIntegers() const { return byteDot == ByteDot::Quads; }
};

/// The variants whose code differs, widest first: avx512vnni, avx512, avx2, baseline. A BF16
/// variant joins when a kernel uses its instructions.
const std::vector<HostIsa> &hostIsas();

/// The variant of that name, or null.
const HostIsa *findHostIsa(const std::string &name);

} // namespace gemma::codegen
