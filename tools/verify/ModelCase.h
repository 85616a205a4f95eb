// A whole model as a folder: any implementation, in any language, can be run on it and checked.
#pragma once

#include "runtime/support/Status.h"
#include "tools/verify/ModelSource.h"
#include "tools/verify/NodeCase.h"

#include <filesystem>

namespace gemma::verify {

/// Writes `folder` with the model at reduced sizes (reducedConfig) in its official form:
/// config.json, model.safetensors (random weights, bf16) and reference.safetensors with prompts and
/// f64 outputs:
///
///   prompt.L.tokens [L] I64, prompt.L.logits [L, V], prompt.L.loglik [1]   for L = 1, 2, w - 1, w,
///                                                        w + 1, 3 w + 5 and options.tokens
///   hidden.L.{embed, layer.I, final_norm} [L, H]                           for L = 3 w + 5
///   sub.L.layer.I.NAME                       inside the first layer of each kind, L = 3 w + 5
///
/// loglik: the sum over t >= 1 of log p(token t). Refused if the folder has a checkpoint.
Status writeModelCase(const ModelSource &source, const CaseOptions &options,
                      const std::filesystem::path &folder);

/// config.json of `config` in the published form of the 12B or the 31B.
Expected<std::string> officialConfig(const ModelConfig &config);

} // namespace gemma::verify
