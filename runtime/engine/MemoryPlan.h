// What a model takes of memory, before anything is allocated: exactly what is allocated later.
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gemma {

/// What the plan depends on beside the program.
struct MemoryRequest {
  int64_t context = 0; ///< positions of a sequence; 0: the program's maxContext
  int64_t batch = 0;   ///< sequences that the caches hold; 0: the program's maxBatch
  int64_t threads = 1; ///< each has its own scratch
};

/// Bytes. Every object counts with its alignment.
///
/// Weights that are packed at load, tables and all of a context are taken, not only reserved, when
/// they are made: from then on the process has this and some MiB of its own. Mapped weights become
/// resident as they are read, all of them within the first token whose logits are wanted.
struct MemoryPlan {
  uint64_t weights = 0;
  uint64_t slidingCache = 0; ///< rings of all sliding layers and sequences
  uint64_t globalCache = 0;  ///< pages of all global layers and sequences
  uint64_t activations = 0;  ///< the largest arena of the variants
  uint64_t tickets = 0;      ///< counters of kernels whose blocks share work
  uint64_t scratch = 0;      ///< of all threads
  uint64_t outputs = 0;
  uint64_t inputs = 0;
  uint64_t tables = 0;

  // For people:
  /// The weights of one storage type: `bytes` are parts of `weights`.
  struct StoredAs {
    ScalarType type;
    uint64_t bytes = 0, parameters = 0;
  };
  std::vector<StoredAs> weightTypes; ///< by falling bytes
  uint64_t asInt4 = 0; ///< what weights would take with gemma-compile --weight-type int4
  int64_t slidingLayers = 0, globalLayers = 0;
  int64_t context = 0, batch = 0, threads = 0;
  uint64_t globalPositionBytes = 0; ///< that a position takes in all global layers

  /// Of a Model, which contexts share.
  uint64_t modelBytes() const { return weights + tables; }
  /// Of one Context.
  uint64_t contextBytes() const {
    return slidingCache + globalCache + activations + tickets + scratch + outputs + inputs;
  }
  uint64_t total() const { return modelBytes() + contextBytes(); }
  /// A line a figure, in bytes and MiB.
  std::string text() const;
};

/// A checked program's plan. Refused if the request is outside the program's limits.
Expected<MemoryPlan> planMemory(const Program &program, const MemoryRequest &request);

/// Bytes that this process may still take: the system's MemAvailable or what is left of the
/// cgroup's limit; UINT64_MAX if neither is known.
uint64_t availableMemory();

/// Bytes of memory that this process has now, pages of mapped files among them (proc(5), statm);
/// nothing if the system does not say.
std::optional<uint64_t> residentMemory();

/// Whether the plan fits `available` bytes, what is free here, and, if not, what would: "20000.0
/// MiB of 24000.0 MiB that are free here: it fits".
std::string fitText(const MemoryPlan &plan, uint64_t available = availableMemory());

/// Where mapped weights and what else the plan has are more than `available` bytes: that it works,
/// at the disk's speed. Empty if they fit.
std::string mappedText(const MemoryPlan &plan, uint64_t available = availableMemory());

/// Refuses with the numbers and what would take less if `bytes`, all of the plan or all but the
/// weights, are more than availableMemory().
Status checkMemory(uint64_t bytes, const MemoryPlan &plan);

} // namespace gemma
