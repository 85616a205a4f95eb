// The two-level angle tables of a rope.
#pragma once

#include "runtime/abi/Program.h"

#include <cstddef>
#include <span>
#include <string_view>

namespace gemma {

/// Rows of a lane. Position p is the complex product of row p / 512 of the hi lanes and row p % 512
/// of the lo lanes.
inline constexpr int64_t angleRows = 512;

inline constexpr std::string_view angleLaneNames[4] = {"cos_hi", "sin_hi", "cos_lo", "sin_lo"};

/// Fills the lane `angleLaneNames[lane]`: [512, active] of the table's element type. Row i of a lo
/// lane is at position i, of a hi lane at position 512·i; the angle at position p is
/// p · theta^(-2j/denominator) for column j. `out` has tableLaneBytes(table) bytes.
///
/// Made in 80-bit arithmetic: an angle of 2^18 in double would be off by 2e-11.
void fillAngleLane(const TablePlan &table, size_t lane, std::span<std::byte> out);

} // namespace gemma
