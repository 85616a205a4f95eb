// Registers of what caches hold, in the computed type.
//
// 16-bit floats of a cache are widened two registers at a time: as 32-bit words, whose lower halves
// move up and whose upper halves stay. That takes no lane from its place, so one register has the
// even elements, the other the odd ones: "register order". Everything else comes in its own order.
#pragma once

#include "codegen/cpu/KernelBuilder.h"

#include <array>

namespace gemma::codegen {

class CacheRegisters {
public:
  using Value = mlir::Value;
  using Pair = std::array<Value, 2>;

  /// Rows of `view` whose `length` last elements are taken `lanes` at a time.
  CacheRegisters(KernelBuilder &b, const View &view, mlir::Type compute, int64_t length,
                 int64_t lanes);

  const View &memory() const { return view; }
  /// Whether elements come in pairs of registers, in register order. Else all is in natural order.
  bool paired() const { return pairs; }
  /// Elements [at, at + 2·lanes) in register order; only if paired.
  Pair loadPair(mlir::ValueRange at);
  /// Two registers of 2·lanes consecutive elements, from register order to natural, and back.
  Pair toNatural(Pair registers);
  Pair toRegisters(Pair natural);

private:
  Pair shuffle(Pair pair, llvm::ArrayRef<int64_t> first, llvm::ArrayRef<int64_t> second);

  KernelBuilder &b;
  View view;
  int64_t lanes;
  bool pairs;
};

} // namespace gemma::codegen
