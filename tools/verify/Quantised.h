// What the reference must know of programs that store less than they compute: quantised weights as
// they are stored, activations as their contractions round them, keys and values as caches do.
#pragma once

#include "reference/Weights.h"
#include "runtime/abi/Program.h"
#include "runtime/weights/Quantize.h"
#include "tools/compiler/Compiler.h"

#include <optional>

namespace gemma::verify {

/// The options that decide a program's types, from `program.numerics`: dtype, weightType,
/// embeddingType, kvType, codeType.
Expected<compiler::CompileOptions> typeOptions(const Program &program);

/// The weights of a program: quantised ones packed as their recipes say and read back, every code
/// times its scale, which is exact in f64; the others as the checkpoint has them. That the codes
/// are near the checkpoint's values is checked: a program and this could agree on anything.
class StoredWeights : public reference::WeightSource {
public:
  /// The checkpoint must outlive this.
  StoredWeights(const Checkpoint &checkpoint, const Program &program)
      : checkpoint(checkpoint), recipes(program.weights), plain(checkpoint) {}
  Expected<reference::Tensor> weight(program::WeightOp weight) override;

  /// Whether a weight is quantised.
  static bool isQuantised(const Program &program, llvm::StringRef weight);

private:
  const Checkpoint &checkpoint;
  std::vector<WeightRecipe> recipes;
  reference::CheckpointWeights plain;
};

/// Rounds rows to codes · scales as kernel.quantize does, bit for bit: `codes` is I8 or I16, and
/// `columns` of a row have one scale.
void roundToCodes(reference::Tensor &x, ScalarType codes, size_t columns = groupColumns);
/// Rounds keys or values [T, heads, D] as caches of this type store them.
void roundToCache(reference::Tensor &x, ScalarType cache);

} // namespace gemma::verify
