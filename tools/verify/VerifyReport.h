// What a verification found, as text and as JSON.
#pragma once

#include "runtime/support/ScalarType.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gemma::verify {

/// A spec key, or a whole model.
struct VerifyRow {
  std::string key;   ///< "layers[*].attn.core"
  std::string what;  ///< its Op Spec and layers, or what is compared
  double worst = 0;  ///< largest max|d| / max|ref| of a tensor; infinite for NaN
  std::string where; ///< of which seed, length and layer that is
  double bound = 0;
  int64_t tensors = 0; ///< compared

  /// Something was compared, and nothing was worse than the bound.
  bool holds() const { return tensors > 0 && worst <= bound; }
};

struct VerifyReport {
  std::string model;   ///< as asked for, and at which sizes
  std::string program; ///< type, instruction set
  ScalarType dtype = ScalarType::F64;
  std::vector<VerifyRow> rows;
  std::vector<std::string> notes;

  bool holds() const;
};

std::string printReport(const VerifyReport &report);
nlohmann::json reportToJson(const VerifyReport &report);

} // namespace gemma::verify
