#include "reference/Ops.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

namespace gemma::reference {

using Real = long double;
using Row = std::span<const double>;

//===----------------------------------------------------------------------===//
// Functions of the appendix
//===----------------------------------------------------------------------===//

static Real sigmoid(Real x) { return 1 / (1 + std::exp(-x)); }
static Real silu(Real x) { return x * sigmoid(x); }
static Real softcap(Real c, Real z) { return c * std::tanh(z / c); }
static Real geluTanh(Real x) {
  const Real root = std::sqrt(2 / std::numbers::pi_v<Real>);
  return x / 2 * (1 + std::tanh(root * (x + 0.044715L * x * x * x)));
}

/// Σ a[i] b[i]. Four chains of additions: one alone waits for each sum.
static Real dot(Row a, Row b) {
  Real sum[4] = {};
  size_t n = a.size(), i = 0;
  for (; i + 4 <= n; i += 4) {
    sum[0] += Real(a[i]) * b[i];
    sum[1] += Real(a[i + 1]) * b[i + 1];
    sum[2] += Real(a[i + 2]) * b[i + 2];
    sum[3] += Real(a[i + 3]) * b[i + 3];
  }
  for (; i < n; ++i)
    sum[0] += Real(a[i]) * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// √(mean(x²) + ε)
static Real rms(Real eps, Row x) { return std::sqrt(dot(x, x) / Real(x.size()) + eps); }

Tensor rmsnorm(double eps, const Tensor &x, const Tensor &w) {
  Tensor y(x.shape);
  for (int64_t t = 0; t < x.rows(); ++t) {
    Real norm = rms(eps, x.row(t));
    for (size_t i = 0; i < x.row(t).size(); ++i)
      y.row(t)[i] = double(x.row(t)[i] / norm * w.data[i]);
  }
  return y;
}

Tensor rmsnormOffset(double eps, const Tensor &x, const Tensor &w) {
  Tensor y(x.shape);
  for (int64_t t = 0; t < x.rows(); ++t) {
    Real norm = rms(eps, x.row(t));
    for (size_t i = 0; i < x.row(t).size(); ++i)
      y.row(t)[i] = double(x.row(t)[i] / norm * (1 + Real(w.data[i])));
  }
  return y;
}

Tensor rmsnormUnit(double eps, const Tensor &x) {
  Tensor y(x.shape);
  for (int64_t t = 0; t < x.rows(); ++t) {
    Real norm = rms(eps, x.row(t));
    for (size_t i = 0; i < x.row(t).size(); ++i)
      y.row(t)[i] = double(x.row(t)[i] / norm);
  }
  return y;
}

Tensor rmsnormGated(double eps, const Tensor &x, const Tensor &z, const Tensor &w) {
  assert(x.shape == z.shape);
  Tensor y(x.shape);
  for (int64_t t = 0; t < x.rows(); ++t) {
    Real norm = rms(eps, x.row(t));
    for (size_t i = 0; i < x.row(t).size(); ++i)
      y.row(t)[i] = double(w.data[i] * (x.row(t)[i] / norm) * silu(z.row(t)[i]));
  }
  return y;
}

Tensor l2norm(double eps, const Tensor &x) {
  Tensor y(x.shape);
  for (int64_t t = 0; t < x.rows(); ++t) {
    Real norm = std::sqrt(dot(x.row(t), x.row(t)) + eps);
    for (size_t i = 0; i < x.row(t).size(); ++i)
      y.row(t)[i] = double(x.row(t)[i] / norm);
  }
  return y;
}

//===----------------------------------------------------------------------===//
// Linear maps, activations, residuals, both ends
//===----------------------------------------------------------------------===//

Tensor linear(const Tensor &w, const Tensor &x) {
  assert(w.width() == x.width());
  Tensor y({x.dim(0), w.dim(0)});
  for (int64_t t = 0; t < x.dim(0); ++t)
    for (int64_t n = 0; n < w.dim(0); ++n)
      y.row(t)[size_t(n)] = double(dot(x.row(t), w.row(n)));
  return y;
}

/// act(gate) ⊙ up of [gate ‖ up] rows.
template <typename Activation> static Tensor gated(const Tensor &gateUp, Activation act) {
  size_t half = size_t(gateUp.width() / 2);
  Tensor y({gateUp.dim(0), int64_t(half)});
  for (int64_t t = 0; t < gateUp.dim(0); ++t)
    for (size_t i = 0; i < half; ++i)
      y.row(t)[i] = double(act(Real(gateUp.row(t)[i])) * gateUp.row(t)[half + i]);
  return y;
}

Tensor siluMul(const Tensor &gateUp) { return gated(gateUp, silu); }
Tensor geluMul(const Tensor &gateUp) { return gated(gateUp, geluTanh); }

Tensor residual(double r, double s, const Tensor &x, const Tensor &h) {
  assert(x.shape == h.shape);
  Tensor y(x.shape);
  for (size_t i = 0; i < x.data.size(); ++i)
    y.data[i] = double(s * (x.data[i] + Real(r) * h.data[i]));
  return y;
}

Tensor embed(double mul, const Tensor &weight, std::span<const int32_t> tokens) {
  Tensor y({int64_t(tokens.size()), weight.width()});
  for (size_t t = 0; t < tokens.size(); ++t)
    for (size_t i = 0; i < weight.row(0).size(); ++i)
      y.row(int64_t(t))[i] = mul * weight.row(tokens[t])[i];
  return y;
}

Tensor lmHead(double mul, std::optional<double> cap, const Tensor &w, const Tensor &x) {
  assert(w.width() == x.width());
  Tensor y({x.dim(0), w.dim(0)});
  for (int64_t t = 0; t < x.dim(0); ++t)
    for (int64_t v = 0; v < w.dim(0); ++v) {
      Real z = mul * dot(x.row(t), w.row(v));
      y.row(t)[size_t(v)] = double(cap ? softcap(*cap, z) : z);
    }
  return y;
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

long double invFreq(double theta, int64_t denom, int64_t active, int64_t i) {
  return i < active ? std::pow(Real(theta), -(2 * Real(i) / Real(denom))) : Real(0);
}

Tensor rope(double theta, int64_t rot, int64_t denom, int64_t active,
            std::span<const int64_t> positions, const Tensor &x) {
  assert(x.rank() == 3 && int64_t(positions.size()) == x.dim(0) && rot <= x.width());
  int64_t heads = x.dim(1), half = rot / 2;
  Tensor y = x; // coordinates from 2 half on stay
  for (int64_t t = 0; t < x.dim(0); ++t)
    for (int64_t i = 0; i < half; ++i) {
      Real angle = Real(positions[size_t(t)]) * invFreq(theta, denom, active, i);
      Real cosine = std::cos(angle), sine = std::sin(angle);
      for (int64_t h = 0; h < heads; ++h) {
        Row in = x.row(t * heads + h);
        std::span<double> out = y.row(t * heads + h);
        Real a = in[size_t(i)], b = in[size_t(i + half)];
        out[size_t(i)] = double(a * cosine - b * sine);
        out[size_t(i + half)] = double(b * cosine + a * sine);
      }
    }
  return y;
}

Tensor ropeStd(double theta, int64_t rot, std::span<const int64_t> positions, const Tensor &x) {
  return rope(theta, rot, rot, rot / 2, positions, x);
}

Tensor keysOfValues(double theta, int64_t rot, int64_t denom, int64_t active, const Tensor &w,
                    std::span<const int64_t> positions, const Tensor &v) {
  assert(w.count() == v.width());
  Tensor scaled = v;
  for (int64_t r = 0; r < v.rows(); ++r)
    for (size_t i = 0; i < w.data.size(); ++i)
      scaled.row(r)[i] *= w.data[i];
  return rope(theta, rot, denom, active, positions, scaled);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// One query head over keys [first, last] of key/value head c.
static void attend(Real scale, int64_t first, int64_t last, int64_t c, Row q, const Tensor &k,
                   const Tensor &v, std::span<double> out) {
  int64_t kvHeads = k.dim(1);
  std::vector<Real> p(size_t(last - first + 1));
  for (int64_t l = first; l <= last; ++l)
    p[size_t(l - first)] = scale * dot(q, k.row(l * kvHeads + c));
  // The same real number with or without the maximum taken off; only e^x stays in range.
  Real largest = *std::max_element(p.begin(), p.end()), total = 0;
  for (Real &x : p)
    total += x = std::exp(x - largest);
  std::vector<Real> sum(q.size());
  for (int64_t l = first; l <= last; ++l)
    for (size_t d = 0; d < sum.size(); ++d)
      sum[d] += p[size_t(l - first)] * v.row(l * kvHeads + c)[d];
  for (size_t d = 0; d < sum.size(); ++d)
    out[d] = double(sum[d] / total);
}

Tensor gqa(double scale, std::optional<int64_t> window, std::span<const int64_t> positions,
           const Tensor &q, const Tensor &k, const Tensor &v) {
  assert(q.rank() == 3 && k.shape == v.shape && q.width() == k.width());
  int64_t heads = q.dim(1), group = heads / k.dim(1);
  Tensor o(q.shape);
  for (int64_t t = 0; t < q.dim(0); ++t) {
    int64_t last = positions[size_t(t)];
    int64_t first = window ? std::max<int64_t>(0, last - *window + 1) : 0;
    assert(last < k.dim(0));
    for (int64_t h = 0; h < heads; ++h)
      attend(scale, first, last, h / group, q.row(t * heads + h), k, v, o.row(t * heads + h));
  }
  return o;
}

Tensor sigmoidGate(const Tensor &x, const Tensor &gate) {
  assert(x.shape == gate.shape);
  Tensor y(x.shape);
  for (size_t i = 0; i < x.data.size(); ++i)
    y.data[i] = double(x.data[i] * sigmoid(gate.data[i]));
  return y;
}

//===----------------------------------------------------------------------===//
// Sampling
//===----------------------------------------------------------------------===//

TopK topK(int64_t k, const Tensor &x) {
  assert(k <= x.width());
  TopK top{Tensor({x.dim(0), k}), {}};
  for (int64_t r = 0; r < x.dim(0); ++r) {
    Row row = x.row(r);
    std::vector<int32_t> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      double x = row[size_t(a)], y = row[size_t(b)];
      return x > y || (x == y && a < b);
    });
    for (int64_t i = 0; i < k; ++i) {
      top.values.row(r)[size_t(i)] = row[size_t(order[size_t(i)])];
      top.ids.push_back(order[size_t(i)]);
    }
  }
  return top;
}

} // namespace gemma::reference
