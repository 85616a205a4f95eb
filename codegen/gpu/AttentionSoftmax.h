// The softmax of kernel.attention, a tile of keys after the other (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018).
#pragma once

#include "codegen/gpu/AttentionTiles.h"

namespace gemma::codegen::cuda {

/// A few threads a row of the block; each row's maximum and sum so far are carried by all of them.
class AttentionSoftmax : protected AttentionTiles {
protected:
  using AttentionTiles::AttentionTiles;

  /// Decides how many threads a row has. After check().
  void assignThreads();
  /// Emits this thread's row.
  void findRow();

  /// Reads `scores` of a tile and writes `probabilities`, 2^(score·log2 e − new maximum), exactly 0
  /// where a key is not visible, and to `factors` what earlier sums are multiplied with; updates
  /// the row's maximum and sum.
  void emitSoftmax(Value firstKeyOfTile, Value &maximum, Value &sum);
  /// One thread of the row writes its factor.
  void storeFactor(Value factor);
  /// In one thread of each row, with the row.
  void whenFirstOfRow(llvm::function_ref<void(Value)> body);

private:
  int64_t threadsOfRow = 0;
  int64_t columnsOfStep = 0; ///< that a thread reads at once: 2 or 4
  Value row;                 ///< of this thread; the last one also of threads that are too many
};

} // namespace gemma::codegen::cuda
