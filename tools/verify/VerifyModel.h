// Compiled programs against the interpreter: node by node and as a whole.
#pragma once

#include "runtime/support/Status.h"
#include "tools/verify/ModelSource.h"
#include "tools/verify/VerifyReport.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace gemma::verify {

struct VerifyOptions {
  ScalarType dtype = ScalarType::F64; ///< F64, F32 or BF16
  /// I8 or I4: how a model's matrices are stored; unset: as the dtype. An artifact has its own.
  std::optional<ScalarType> weightType{};
  /// How caches store keys and values: f32, bf16 or i8; nothing: as the dtype.
  std::optional<ScalarType> kvType{};
  uint64_t seed = 1; ///< of the first of two weight draws
  /// A spec key's nodes (SpecKey.h): only they are reported, and no whole model. Empty: everything.
  std::string nodes;
  /// Told what is being done.
  std::function<void(const std::string &)> progress{};
};

/// Compiles the model at reduced sizes, unfused and fused, and runs both with two draws of random
/// weights on prompts of 13 and 3 w + 5 tokens, in chunks and then token by token, with NaN
/// wherever a kernel must not read.
///
/// Unfused, each node's output is compared with what the reference makes of the inputs that the
/// program itself had computed, so that errors do not add up. Logits and caches of both programs
/// are compared with the reference's own. Of quantised weights the reference has what is stored,
/// and it rounds the activations of their contractions to the same codes (Quantised.h).
Expected<VerifyReport> verifyModel(const ModelSource &source, const VerifyOptions &options);

/// The artifact's own code at its own shapes: a model of its configuration with one layer of each
/// kind, planned as the artifact was and run with its kernels on random weights and a few tokens.
/// Node by node if the artifact was compiled without fusion. `options.dtype` is the artifact's.
Expected<VerifyReport> verifyArtifact(const std::filesystem::path &file,
                                      const VerifyOptions &options);

} // namespace gemma::verify
