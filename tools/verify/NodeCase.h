// One node as a file: inputs and f64 outputs, to check a kernel that somebody else wrote.
#pragma once

#include "runtime/support/ScalarType.h"
#include "runtime/support/Status.h"
#include "tools/verify/ModelSource.h"
#include "tools/verify/VerifyReport.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace gemma::verify {

struct CaseOptions {
  int64_t tokens = 13; ///< T; of attention B, sequences with one query each
  int64_t seq = 64;    ///< S: cached positions of the longest sequence; positions of a rope
  uint64_t seed = 1;
};

/// Writes the node's case at the model's own sizes: the tensors of the spec page's table under
/// their names, and the weights (w; w_q and w_k of q and k; s, the layer scalar). Inputs are bf16
/// numbers (activations stored as F32, weights as BF16), ids and positions I64, outputs F64. The
/// metadata says the node's full key, the names of the outputs, and the numbers above.
///
/// `nodes`: a spec key's nodes that mean one node; layers[*] takes the first layer of the page's
/// order. Gives the key of the node that was taken.
Expected<std::string> writeNodeCase(const ModelSource &source, const std::string &nodes,
                                    const CaseOptions &options, const std::filesystem::path &file);

/// Judges the outputs in `gotFile` against the case. With `dtype` unset each tensor's own type says
/// the bound: nodeBound() of f64 and f32; a 16-bit output may have three roundings of its type.
Expected<VerifyReport> checkNodeCase(const std::string &key, const std::filesystem::path &caseFile,
                                     const std::filesystem::path &gotFile,
                                     std::optional<ScalarType> dtype);

} // namespace gemma::verify
