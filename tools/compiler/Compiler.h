// From a model configuration to an artifact: the phases, the code generators and the packaging, as
// gemma-compile, gemma-verify and gemma-bench use them.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/engine/Artifact.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gemma::compiler {

/// Where a compilation may stop.
enum class Phase { Import, Optimize, Lower, Memory, Codegen };
inline constexpr const char *phaseNames[] = {"import", "optimize", "lower", "memory", "codegen"};

struct CompileOptions {
  /// F64, F32 or BF16; unset: the checkpoint's, F16 becoming F32.
  std::optional<ScalarType> dtype{};
  /// How matrices are stored: I8, I4, or the dtype (unset). On the host, with dtypes F32 and BF16.
  std::optional<ScalarType> weightType{};
  /// The same for the token table and the head; unset: I8 with I4 matrices, else as the matrices.
  std::optional<ScalarType> embeddingType{};
  /// I8 (unset) or I16: what contractions with I8 and I4 weights round their activations to.
  std::optional<ScalarType> codeType{};
  /// How the host's caches store keys and values: F32, BF16 or I8 with dtypes F32 and BF16; unset:
  /// the dtype.
  std::optional<ScalarType> kvType{};
  int64_t maxContext = 0; ///< 0: min(8192, the configuration's)
  int64_t maxBatch = 1;
  int64_t maxChunk = 512;
  /// How many of a row's largest logits a step also gives, with their ids; 0: none.
  int64_t top = 1;
  bool fusion = true;
  /// Layers whose keys follow from their values store the values alone; nothing is shared without
  /// fusion, whose programs have every node of the spec.
  bool kvSharing = true;
  /// A token's result is the same bits alone, in a batch and in chunks. The host's programs are so
  /// anyway; those for CUDA devices give up sharing a tile's or a sequence's work between blocks.
  bool deterministic = false;
  /// "host", or CUDA architectures, their PTX alone, and emulated ones: "sm_80", "ptx-sm_80",
  /// "emu-sm_80" (DeviceCode.h). One
  /// artifact has one program, so the host and CUDA devices do not go together.
  std::vector<std::string> targets = {"host"};
  std::vector<std::string> isas{}; ///< of the host; empty: all that the compiler knows
  std::string dumpDir{};           ///< not empty: PHASE.mlir and KERNEL.TARGET.{ll,s,o} go there
  /// Called as work goes on: a step's name, and how many of how many steps are done.
  std::function<void(const std::string &step, int64_t done, int64_t of)> progress{};
};

/// Elements of all tensors that the text model has.
uint64_t parameterCount(const ModelConfig &config);

/// Checks the options against the configuration and fills in the defaults.
Expected<CompileOptions> resolveOptions(const CompileOptions &options, const ModelConfig &config);

/// Runs the phases up to and including `last` (not Codegen) and gives the IR as text.
Expected<std::string> compileToText(const ModelConfig &config, const CompileOptions &options,
                                    Phase last);

/// Runs everything. The artifact has program, objects and version; what comes from the checkpoint's
/// folder (tokenizer, eos list, hint) is the caller's to add.
Expected<Artifact> compileModel(const ModelConfig &config, const CompileOptions &options);

/// compileModel() for an open checkpoint, with tokenizer, eos list, sampling defaults and hint.
Expected<Artifact> compileCheckpoint(const Checkpoint &checkpoint, const CompileOptions &options);

/// What the kernels take of CUDA devices and what steps should cost there, for people and as JSON.
struct ModelReport {
  std::string text, json;
};

/// What --report needs: a model of the options' CUDA targets, not a measurement (DeviceReport.h).
Expected<ModelReport> reportModel(const ModelConfig &config, const CompileOptions &options);

/// The program alone, without code: what --plan needs.
Expected<Program> planModel(const ModelConfig &config, const CompileOptions &options);

} // namespace gemma::compiler
