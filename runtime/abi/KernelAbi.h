// The contract between emitted host kernels and the runtime: one page to read.
//
// A kernel is   void k(const GemmaArgs *args, uint64_t begin, uint64_t end, void *scratch);
// It runs blocks [begin, end) of its grid; blocks have no order. The result does not depend on how
// the grid is cut into ranges. Kernels cannot fail: the runtime checks a step before it starts.
// They keep no state, call nothing, allocate nothing. A worker that runs several ranges of a launch
// says so from the second one on: what does not depend on the block is then in its scratch already.
#pragma once

#include <cstdint>

/// Bumped whenever anything on this page changes; an artifact with another version is refused.
#define GEMMA_KERNEL_ABI_VERSION 2

extern "C" {

/// Sizes of one step, in the order of the symbols of every affine map: T, B, Q, S, R.
struct GemmaSizes {
  int64_t tokens;     ///< T: new tokens, all rows together
  int64_t sequences;  ///< B: rows of the ragged batch
  int64_t longestRun; ///< Q: most new tokens of one row
  int64_t longestSeq; ///< S: largest seq_lens entry, the step's own tokens included
  int64_t logitRows;  ///< R: rows whose logits are wanted
};

/// Arguments of one launch. `arguments[i]` is the first byte of the kernel's i-th argument.
struct GemmaArgs {
  const GemmaSizes *sizes;
  void *const *arguments;
  /// Not 0: the scratch is as the same launch's last range on it left it.
  uint64_t prepared;
};

typedef void (*GemmaKernel)(const GemmaArgs *args, uint64_t begin, uint64_t end, void *scratch);
}
