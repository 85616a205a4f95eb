// Quantisation of weights in groups of 32 columns: code * scale with one f16 scale a group.
#pragma once

#include "runtime/support/ScalarType.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gemma {

/// One group of a panel: x[k][r] is column k of row r.
inline constexpr size_t groupColumns = 32, panelLanes = 16;
using GroupValues = std::array<std::array<float, panelLanes>, groupColumns>;
/// Bytes of its codes: 512 for i8, 256 for i4.
constexpr size_t groupCodeBytes(ScalarType storage) {
  return storage == ScalarType::I8 ? 512 : 256;
}

/// The largest magnitude that codes and f16 scales reach: 65504 * 127 for i8, 65504 * 8 for i4.
float quantizedLimit(ScalarType storage);

/// Quantises a group to i8 or i4. Codes, for quad j of four columns and row r:
///
///   i8   out[j][r][i], j < 8   w + 128 of column 4j + i, w in [-127, 127]
///   i4   out[j][r][i], j < 4   w + 8 of column 4j + i in the low half, of 4(j + 4) + i in the
///                              high one, w in [-8, 7]
///
/// Every code is the nearest to x / scale with the scale as f16 has it. For i8 the scale is
/// absmax / 127. For i4 it is sought: of several that bring the largest element near -8, and of the
/// least-squares fit to the best one's codes, the one with the smallest squared error; so it may be
/// negative. docs/decisions/0017 has the measurements. Where |x| / 8 is below half the smallest f16
/// all codes and the scale are 0.
///
/// Returns the bits of the largest |x| (those of a NaN or an infinity are above 0x7f800000 - 1): if
/// that is above quantizedLimit() what was written is worth nothing. The result is the same bits on
/// every processor.
uint32_t quantizeGroup(ScalarType storage, const GroupValues &x, std::byte *codes,
                       uint16_t *scales);

/// quantizeGroup() as compiled for one instruction set.
struct QuantizeVariant {
  const char *isa;
  bool runs; ///< on this processor
  decltype(&quantizeGroup) quantize;
};
/// All of them, the fastest first: quantizeGroup() is the first that runs. The last runs
/// everywhere.
std::span<const QuantizeVariant> quantizeVariants();

} // namespace gemma
