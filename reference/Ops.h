// The Op Specs as plain loops, to be read beside test/data/spec/op-definitions.lean.md.
//
// Elements are double. Sums, divisions, roots and transcendental functions are long double (80 bits
// on x86), rounded once when an element is stored; so an op's error is about half a unit in the
// last place. Weights are [N, K] as in checkpoints. Norms work on the last axis.
//
// Shapes are the caller's duty (asserted). T rows, L keys, h query heads, c key/value heads, D head
// dimension; query head i reads key/value head i / (h / c).
#pragma once

#include "reference/Tensor.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gemma::reference {

// Norm.lean: x [..., H], w [H].
Tensor rmsnorm(double eps, const Tensor &x, const Tensor &w);
Tensor rmsnormOffset(double eps, const Tensor &x, const Tensor &w);
Tensor rmsnormUnit(double eps, const Tensor &x);
Tensor rmsnormGated(double eps, const Tensor &x, const Tensor &z, const Tensor &w);
Tensor l2norm(double eps, const Tensor &x);

// Linear.lean
/// x [T, K], w [N, K] -> [T, N]
Tensor linear(const Tensor &w, const Tensor &x);
/// [T, 2 I] -> [T, I]
Tensor siluMul(const Tensor &gateUp);
/// [T, 2 I] -> [T, I]
Tensor geluMul(const Tensor &gateUp);
/// s (x + r h); s is the learned scalar of the layer, or 1.
Tensor residual(double r, double s, const Tensor &x, const Tensor &h);
/// weight [V, H], ids in [0, V) -> [T, H]
Tensor embed(double mul, const Tensor &weight, std::span<const int32_t> tokens);
/// x [R, H], w [V, H] -> [R, V]
Tensor lmHead(double mul, std::optional<double> cap, const Tensor &w, const Tensor &x);

// Rope.lean: x [T, heads, D], positions [T].
Tensor rope(double theta, int64_t rot, int64_t denom, int64_t active,
            std::span<const int64_t> positions, const Tensor &x);
Tensor ropeStd(double theta, int64_t rot, std::span<const int64_t> positions, const Tensor &x);
/// The keys of values alone: rope(w ⊙ v), v [L, c, D] at `positions` [L], w [D].
Tensor keysOfValues(double theta, int64_t rot, int64_t denom, int64_t active, const Tensor &w,
                    std::span<const int64_t> positions, const Tensor &v);
/// The inverse frequency of pair i.
long double invFreq(double theta, int64_t denom, int64_t active, int64_t i);

// Attention.lean
/// causalGQA, or slidingGQA with a window, for one sequence: q [T, h, D] at `positions` [T], k and
/// v [L, c, D] at positions 0 ... L-1; every position < L. One query is decodeGQA.
Tensor gqa(double scale, std::optional<int64_t> window, std::span<const int64_t> positions,
           const Tensor &q, const Tensor &k, const Tensor &v);
/// x sigmoid(gate), elementwise.
Tensor sigmoidGate(const Tensor &x, const Tensor &gate);

/// The k largest entries of each row, largest first; of equal ones the smaller index first.
struct TopK {
  Tensor values;            ///< [R, k]
  std::vector<int32_t> ids; ///< [R, k]
};
TopK topK(int64_t k, const Tensor &x);

} // namespace gemma::reference
