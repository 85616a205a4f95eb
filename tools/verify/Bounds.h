// How far a compiled program may be from the reference, as max|d| / max|ref| of a tensor.
#pragma once

#include "runtime/support/ScalarType.h"

#include <cstdint>
#include <string>

namespace gemma::verify {

/// Of one node that is fed what the program itself computed before it: 27 u, u the unit roundoff of
/// the activations (2^-53, 2^-24). 3e-15 in f64, 1.6e-6 in f32. Sums of `terms` > 512 products may
/// be sqrt(terms / 512) times as far off. The reference rounds keys and values as the cache does,
/// so bf16 weights and caches add nothing.
double nodeBound(ScalarType dtype, int64_t terms);

/// Of logits and caches after all layers: 450 u (5e-14 in f64, 2.7e-5 in f32): the errors of some
/// 15 nodes a layer, amplified a little by norms and attention; `terms` as above, the longest sum.
/// Caches of another type than activations round keys and values by 2^-9 (bf16), or by 1/254 of a
/// head's largest (i8); each layer adds that much, independently of the others: 12 · 2^-9 ·
/// sqrt(layers), 12 / 254 · sqrt(layers).
double wholeBound(ScalarType caches, int64_t layers, int64_t terms);

/// What rounding activations to codes up to `most` (127, 32767) adds to wholeBound(): once two runs
/// differ at all, their roundings are independent, some 2.5 / (most · sqrt(6)) of an input's rms
/// for each of a layer's four contractions; three times that for the largest element: 6 / most ·
/// sqrt(layers).
double codesBound(double most, int64_t layers);

/// The derivation in a line, for reports.
std::string describeBounds(ScalarType dtype, ScalarType caches);

} // namespace gemma::verify
