#include "tools/verify/Bounds.h"

#include <algorithm>
#include <cmath>

namespace gemma::verify {

/// 1 up to 512 terms.
static double growth(int64_t terms) { return std::sqrt(std::max(1.0, double(terms) / 512)); }

double nodeBound(ScalarType dtype, int64_t terms) {
  return (dtype == ScalarType::F64 ? 3e-15 : 27 * 0x1p-24) * growth(terms);
}

double wholeBound(ScalarType caches, int64_t layers, int64_t terms) {
  switch (caches) {
  case ScalarType::F64:
    return 5e-14 * growth(terms);
  case ScalarType::F32:
    return 450 * 0x1p-24 * growth(terms);
  case ScalarType::I8:
    return 12 / 254.0 * std::sqrt(double(layers));
  default:
    return 12 * 0x1p-9 * std::sqrt(double(layers));
  }
}

double codesBound(double most, int64_t layers) { return 6 / most * std::sqrt(double(layers)); }

std::string describeBounds(ScalarType dtype, ScalarType caches) {
  std::string unit = dtype == ScalarType::F64 ? "u = 2^-53" : "u = 2^-24";
  std::string sums = "sqrt(K / 512) times that for sums of K > 512";
  if (caches == ScalarType::F64 || caches == ScalarType::F32)
    return "nodes 27 u, whole 450 u, " + unit + "; " + sums;
  return "nodes 27 u, " + unit + " of f32 activations, " + sums + "; whole 12 * " +
         (caches == ScalarType::I8 ? "1/254 * sqrt(layers), 1/254 of int8"
                                   : "2^-9 * sqrt(layers), 2^-9 of bf16") +
         " keys and values";
}

} // namespace gemma::verify
