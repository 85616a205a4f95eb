// Bytes of what a program names: the same figures for checking, planning and allocating.
#pragma once

#include "runtime/abi/Program.h"

#include <optional>
#include <string_view>

namespace gemma {

/// Alignment of every object that a kernel sees.
inline constexpr uint64_t objectAlignment = 64;

/// `bytes` rounded up to the alignment; nothing if that leaves 63 bits.
std::optional<uint64_t> alignedBytes(uint64_t bytes);

/// a * b, a + b, unless they leave 63 bits.
std::optional<uint64_t> mulBytes(std::optional<uint64_t> a, uint64_t b);
std::optional<uint64_t> addBytes(std::optional<uint64_t> a, std::optional<uint64_t> b);

/// Bytes of a weight in its layout; nothing if the recipe is none that the packer executes:
/// rank 1 or 2, stored as f64, f32 or bf16, panel and kpack 0 and 1 (row-major), 16 and 1 or 2, or
/// 8 and 64, interleave 1 or 2 (only in panels, and of an even number of rows), group 0; or rank 2,
/// stored as i8 or i4, panel 16, kpack 4, group 32, interleave as before.
std::optional<uint64_t> packedBytes(const WeightRecipe &recipe);

/// Columns that share a scale in every quantised weight.
inline constexpr int64_t scaleGroup = 32;
/// Where the scales of a quantised weight begin, in bytes from its first code: a multiple of 64.
/// Nothing if packedBytes() is nothing or the weight is not quantised.
std::optional<uint64_t> scaleOffset(const WeightRecipe &recipe);

/// The lanes that a cache may have, each an object of its own.
inline constexpr size_t cacheLaneCount = 4;
inline constexpr std::string_view cacheLaneNames[cacheLaneCount] = {"k", "v", "k_scales",
                                                                    "v_scales"};
/// cacheLaneCount if the name is none.
size_t cacheLaneFromName(std::string_view name);
/// Whether a lane is of scales (f32, one a position and head), not of the cache's elements.
bool isScaleLane(size_t lane);
/// Whether the cache has this lane.
bool hasLane(const CachePlan &cache, size_t lane);
/// Bytes of one page of one lane of a cache that has it.
std::optional<uint64_t> lanePageBytes(const CachePlan &cache, size_t lane);
/// Bytes of one position in all lanes of the cache; nothing if that leaves 63 bits.
std::optional<uint64_t> positionBytes(const CachePlan &cache);

/// Bytes of one of a table's four lanes.
std::optional<uint64_t> tableLaneBytes(const TablePlan &table);

/// The most rows that an extent ('T', 'B', 'R', '1') counts.
int64_t largestRows(char extent, const ProgramLimits &limits);

/// Elements of one row of a buffer, and bytes from the first row to the end of the last; nothing
/// if that leaves 63 bits, or if rows overlap.
std::optional<uint64_t> rowElements(const LaunchArgument &buffer);
std::optional<uint64_t> rowsBytes(const LaunchArgument &buffer, const ProgramLimits &limits);

/// Bytes of an output with all the rows that the limits allow.
std::optional<uint64_t> outputBytes(const OutputPlan &output, const ProgramLimits &limits);

/// Bytes of the region of tickets: what the launch that has most of them needs.
uint64_t ticketBytes(const Program &program);

/// The arrays that the runtime fills before a step, all i32 (see program.input). Sizes is no
/// argument of a launch: it is the step's GemmaSizes, which every kernel is given, where the device
/// can read.
enum class StepInput : uint8_t {
  Tokens,
  Positions,
  RingPages,
  Pages,
  RowStarts,
  SeqLens,
  Slots,
  PageTable,
  LogitRows,
  Sizes,
};
inline constexpr size_t stepInputCount = 10;

std::optional<StepInput> stepInputFromName(std::string_view name);
std::string_view stepInputName(StepInput input);
/// Entries at the program's limits.
int64_t stepInputEntries(StepInput input, const Program &program);

} // namespace gemma
