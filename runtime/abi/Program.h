// A compiled program as data: what the artifact's manifest holds and the runtime executes.
//
// The compiler fills these structs from the `program` dialect; ProgramJson.h writes and reads them
// as JSON. Every struct here has the same meaning in both.
#pragma once

#include "runtime/checkpoint/ModelConfig.h"
#include "runtime/support/ScalarType.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gemma {

/// Numbers of one step in the order T, B, Q, S, R (see GemmaSizes).
using StepSizes = std::array<int64_t, 5>;

/// A quasi-affine expression over the step's sizes, in postfix order. `size` pushes sizes[value],
/// `constant` pushes value, the others pop two operands and push the result.
struct SizeExpr {
  enum class Op : uint8_t { Size, Constant, Add, Mul, FloorDiv, CeilDiv, Mod };
  struct Term {
    Op op;
    int64_t value = 0;

    bool operator==(const Term &) const = default;
  };
  std::vector<Term> terms;

  /// The value for these sizes; nothing if the expression is malformed, a value leaves 64 bits, or
  /// a divisor is not positive.
  std::optional<int64_t> evaluate(const StepSizes &sizes) const;
  /// Whether the terms are one complete expression.
  bool wellFormed() const;

  bool operator==(const SizeExpr &) const = default;
};

/// A condition `expr >= 0`, or `expr == 0`.
struct SizeCondition {
  SizeExpr expr;
  bool equality = false;

  /// False too where the expression has no value.
  bool holds(const StepSizes &sizes) const;

  bool operator==(const SizeCondition &) const = default;
};

/// How a weight is made from the checkpoint: the concatenation of source tensors (canonical names)
/// along the first dimension, laid out in panels.
///
/// Storage i8 or i4 is quantised: an element is code * scale with one f16 scale for each `group`
/// columns of a row. Codes come first, w + 128 or w + 8 in bytes or halves of bytes, then all
/// scales, at scaleOffset() (runtime/abi/ProgramSizes.h); runtime/weights/Packer.h has the layouts.
struct WeightRecipe {
  std::string name; ///< the symbol
  std::vector<std::string> sources;
  std::vector<int64_t> shape; ///< logical shape, [N, K] or [N]
  ScalarType storage = ScalarType::F32;
  int64_t panel = 0;      ///< rows of a panel: 0 (plain row-major), 8 (tensor cores) or 16
  int64_t kpack = 1;      ///< consecutive k kept side by side within a panel; 4 if quantised
  int64_t interleave = 1; ///< 2: panels alternate between the first and second half of the rows
  uint64_t bytes = 0;     ///< of the packed weight, codes and scales
  int64_t group = 0;      ///< columns that share a scale: 32 if quantised, else 0

  bool operator==(const WeightRecipe &) const = default;
};

/// One layer's key/value cache. Lanes k: [pages, heads, dim, page], v: [pages, heads, page, dim].
/// Without `keys` there is no lane k: kernels compute keys from values. With elem i8 these are
/// codes, and lanes k_scales and v_scales, [pages, heads, page] of f32, have what multiplies those
/// of one position and head.
struct CachePlan {
  std::string name;
  bool ring = false;
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t window = 0;
  int64_t page = 16;     ///< positions of a page
  int64_t ringPages = 0; ///< pages of one sequence's ring
  ScalarType elem = ScalarType::F32;
  bool keys = true;

  bool operator==(const CachePlan &) const = default;
};

/// Angle tables of one rope: four lanes [512, active].
struct TablePlan {
  std::string name;
  double theta = 0;
  int64_t denominator = 0;
  int64_t active = 0;
  ScalarType elem = ScalarType::F32;

  bool operator==(const TablePlan &) const = default;
};

/// One argument of a launch.
struct LaunchArgument {
  /// Workspace: a part of the arena that only the blocks of this launch use. Tickets: the start of
  /// the program's one region of counters, which a launch finds and leaves at zero.
  enum class Kind : uint8_t { Buffer, Workspace, Tickets, Weight, Cache, Table, Input, Output };
  Kind kind = Kind::Buffer;
  uint64_t offset = 0; ///< Buffer, Workspace: bytes into the arena; otherwise into the object
  /// Buffer, Workspace, Tickets: bytes from there on that the launch may touch, at the limits.
  uint64_t bytes = 0;
  int64_t index = -1; ///< Weight, Cache, Table: index into the program's list
  std::string name{}; ///< Input, Output: its name; Cache, Table: the lane
  // Buffer: what is there. (What the others hold is said by the program's lists.)
  ScalarType type = ScalarType::F32;
  std::vector<int64_t> shape{}; ///< of one row
  int64_t stride = 0;           ///< elements from one row to the next
  char extent = '1';            ///< 'T', 'B' or 'R': what counts the rows; '1': there is one

  bool operator==(const LaunchArgument &) const = default;
};

struct Launch {
  int64_t kernel = -1; ///< index into Program::kernels
  std::vector<LaunchArgument> arguments;
  std::vector<std::string> nodes; ///< spec keys, e.g. "layers[3].attn.qkv_proj"

  bool operator==(const Launch &) const = default;
};

/// One launch list. The first variant whose conditions all hold runs.
struct Variant {
  std::string name;
  std::vector<SizeCondition> conditions;
  std::vector<Launch> launches;
  uint64_t arenaBytes = 0;

  bool operator==(const Variant &) const = default;
};

struct KernelPlan {
  std::string name; ///< symbol in the objects
  SizeExpr grid;
  uint64_t scratchBytes = 0;   ///< Host: of a worker
  std::vector<uint8_t> access; ///< one an argument: 0 read, 1 write, 2 readwrite
  std::string hash;            ///< of the kernel's IR, 32 hex digits
  uint64_t threads = 0;        ///< Cuda: of a block, a multiple of 32; 0 on the host
  uint64_t sharedBytes = 0;    ///< Cuda: dynamic shared memory of a block
  /// Cuda, with attention: tokens of a block, and keys that it takes at a time (kernel.attention).
  int64_t queryTile = 0, keyTile = 0;

  bool operator==(const KernelPlan &) const = default;
};

/// An array that a step gives back.
struct OutputPlan {
  std::string name; ///< "logits", "top_values" or "top_ids"
  ScalarType type = ScalarType::F32;
  std::vector<int64_t> shape; ///< of one row
  char extent = 'T';          ///< 'T' or 'R': what counts the rows

  bool operator==(const OutputPlan &) const = default;
};

/// The largest logits of each row, the largest first, and their ids; of equal ones the smallest id
/// comes first, NaN is smaller than every number.
inline constexpr const char *topValuesName = "top_values", *topIdsName = "top_ids";
inline bool isTopOutput(const OutputPlan &output) {
  return output.name == topValuesName || output.name == topIdsName;
}

/// Limits that the plan was made for.
struct ProgramLimits {
  int64_t maxContext = 0;
  int64_t maxBatch = 0;
  int64_t maxChunk = 0;     ///< most tokens of a step
  int64_t maxLogitRows = 0; ///< most logit rows of a step

  bool operator==(const ProgramLimits &) const = default;
};

/// What kind of device a program runs on.
enum class DeviceFamily : uint8_t {
  Host, ///< the processor's cores
  Cuda, ///< CUDA devices, and their emulator
};

struct Program {
  ModelConfig config;
  DeviceFamily family = DeviceFamily::Host;
  ProgramLimits limits;
  std::string numerics; ///< printed #gemma.numerics
  ScalarType weightType = ScalarType::F32;
  ScalarType activationType = ScalarType::F32;
  ScalarType cacheType = ScalarType::F32;
  bool fused = false;
  std::vector<WeightRecipe> weights;
  std::vector<CachePlan> caches;
  std::vector<TablePlan> tables;
  std::vector<KernelPlan> kernels;
  std::vector<OutputPlan> outputs;
  std::vector<Variant> variants;

  /// Entries of one row of the step's page table: the row stride that kernels know.
  int64_t pagesPerSequence() const { return (limits.maxContext + 15) / 16; }
  /// How many of a row's largest logits a step can give; 0: none.
  int64_t topCount() const {
    int64_t values = 0, ids = 0;
    for (const OutputPlan &output : outputs)
      if (output.shape.size() == 1 && output.extent == 'R') {
        if (output.name == topValuesName && isFloat(output.type))
          values = output.shape.front();
        if (output.name == topIdsName && output.type == ScalarType::I32)
          ids = output.shape.front();
      }
    return values == ids ? values : 0;
  }

  bool operator==(const Program &) const = default;
};

} // namespace gemma
