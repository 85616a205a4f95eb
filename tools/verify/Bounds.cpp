#include "tools/verify/Bounds.h"

#include <algorithm>
#include <cmath>

namespace gemma::verify {

/// 1 up to 512 terms.
static double growth(int64_t terms) { return std::sqrt(std::max(1.0, double(terms) / 512)); }

double nodeBound(ScalarType dtype, int64_t terms) {
  return (dtype == ScalarType::F64 ? 3e-15 : 27 * 0x1p-24) * growth(terms);
}

double wholeBound(ScalarType dtype, int64_t layers, int64_t terms) {
  switch (dtype) {
  case ScalarType::F64:
    return 5e-14 * growth(terms);
  case ScalarType::F32:
    return 450 * 0x1p-24 * growth(terms);
  default:
    return 12 * 0x1p-9 * std::sqrt(double(layers));
  }
}

std::string describeBounds(ScalarType dtype) {
  switch (dtype) {
  case ScalarType::F64:
    return "nodes 27 u, whole 450 u, u = 2^-53; sqrt(K / 512) times that for sums of K > 512";
  case ScalarType::F32:
    return "nodes 27 u, whole 450 u, u = 2^-24; sqrt(K / 512) times that for sums of K > 512";
  default:
    return "nodes 27 u, u = 2^-24 of f32 activations, sqrt(K / 512) times that for sums of K > "
           "512; whole 12 * 2^-9 * sqrt(layers), 2^-9 of bf16 "
           "keys and values";
  }
}

} // namespace gemma::verify
