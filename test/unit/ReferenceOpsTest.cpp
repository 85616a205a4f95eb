// Each op of reference/Ops.h against values worked out by hand or in another way.
#include "reference/Ops.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Widen.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace gemma;
using namespace gemma::reference;

namespace {

constexpr double ulp = 0x1p-52;

void expectNear(const Tensor &got, const std::vector<double> &expected, double bound = 2 * ulp) {
  ASSERT_EQ(got.data.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(got.data[i], expected[i], bound * std::max(1.0, std::fabs(expected[i]))) << i;
}

/// Numbers without pattern in (-1, 1).
Tensor scattered(std::vector<int64_t> shape, double phase) {
  Tensor x(std::move(shape));
  for (size_t i = 0; i < x.data.size(); ++i)
    x.data[i] = std::sin(12.9898 * double(i) + phase);
  return x;
}

TEST(ReferenceNorms, RmsNorm) {
  Tensor x({2, 2}, {3, 4, 1e-3, -1e-3}), w({2}, {2, 10});
  double r = std::sqrt(12.5);
  expectNear(rmsnorm(0, Tensor({1, 2}, {3, 4}), w), {6 / r, 40 / r});
  // A mean square of 1e-6 and an epsilon of 1e-6.
  expectNear(rmsnorm(1e-6, x, w), {6 / std::sqrt(12.5 + 1e-6), 40 / std::sqrt(12.5 + 1e-6),
                                   2 / std::sqrt(2.0), -10 / std::sqrt(2.0)});
}

TEST(ReferenceNorms, OtherNorms) {
  Tensor x({1, 2}, {3, 4}), zero({2}, {0, 0}), w({2}, {2, 10});
  double r = std::sqrt(12.5);
  expectNear(rmsnormUnit(0, x), {3 / r, 4 / r});
  expectNear(rmsnormOffset(0, x, zero), {3 / r, 4 / r});
  expectNear(rmsnormOffset(0, x, w), {9 / r, 44 / r});
  // silu(ln 3) = ln 3 · 3/4, silu(0) = 0
  Tensor z({1, 2}, {std::log(3.0), 0});
  expectNear(rmsnormGated(0, x, z, w), {6 / r * 0.75 * std::log(3.0), 0});
  expectNear(l2norm(0, x), {0.6, 0.8});
  expectNear(l2norm(11, x), {0.5, 2.0 / 3}); // no mean: 9 + 16 + 11 = 36
}

TEST(ReferenceNorms, HeadsAreRows) {
  Tensor x = scattered({3, 2, 4}, 1), w = scattered({4}, 2);
  Tensor y = rmsnorm(1e-6, x, w);
  EXPECT_EQ(y.shape, x.shape);
  Tensor flat = rmsnorm(1e-6, Tensor({6, 4}, x.data), w);
  EXPECT_EQ(y.data, flat.data);
}

TEST(ReferenceLinear, Linear) {
  Tensor x({2, 3}, {1, 2, 3, -1, 0, 5}), w({2, 3}, {1, 10, 100, 2, 0, -1});
  Tensor y = linear(w, x);
  EXPECT_EQ(y.shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(y.data, (std::vector<double>{321, -1, 499, -7}));
}

TEST(ReferenceLinear, SumsBeyondDouble) {
  // In double the small terms would vanish beside 2^53.
  Tensor x({1, 5}, {1, 1, 1, 1, 1}), w({1, 5}, {0x1p53, 1, 1, 1, -0x1p53});
  EXPECT_EQ(linear(w, x).data[0], 3);
}

TEST(ReferenceLinear, Activations) {
  Tensor gateUp({2, 4}, {std::log(3.0), 0, 2, 7, -std::log(3.0), 40, 4, 1});
  expectNear(siluMul(gateUp),
             {1.5 * std::log(3.0), 0, -std::log(3.0), 40}); // σ(ln 3) = 3/4, σ(-ln 3) = 1/4
  // tanh(z) = 1 - 2 / (e^{2z} + 1), z = √(2/π) (x + 0.044715 x³)
  auto gelu = [](double x) {
    double z = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
    return x * (1 - 1 / (std::exp(2 * z) + 1));
  };
  Tensor points({3, 2}, {1, 3, -1, 1, 0.25, 2});
  expectNear(geluMul(points), {3 * gelu(1), gelu(-1), 2 * gelu(0.25)}, 4 * ulp);
  EXPECT_NEAR(geluMul(points).data[0] / 3, 0.8411919906082768, 1e-15);
}

TEST(ReferenceLinear, Residual) {
  Tensor x({1, 2}, {1, 2}), h({1, 2}, {10, 20});
  EXPECT_EQ(residual(1, 1, x, h).data, (std::vector<double>{11, 22}));
  EXPECT_EQ(residual(0.5, 3, x, h).data, (std::vector<double>{18, 36})); // s (x + r h)
}

TEST(ReferenceLinear, BothEnds) {
  Tensor table({3, 2}, {1, 2, 3, 4, 5, 6});
  std::vector<int32_t> tokens = {2, 0, 2};
  Tensor x = embed(10, table, tokens);
  EXPECT_EQ(x.shape, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(x.data, (std::vector<double>{50, 60, 10, 20, 50, 60}));
  Tensor y = lmHead(0.5, std::nullopt, table, Tensor({1, 2}, {1, 1}));
  EXPECT_EQ(y.data, (std::vector<double>{1.5, 3.5, 5.5}));
  // c tanh(z / c); tanh(ln 2) = 3/5
  Tensor z({1, 1}, {std::log(2.0) * 30 / 2});
  expectNear(lmHead(2, 30, Tensor({2, 1}, {1, 1000}), z), {18, 30});
}

TEST(ReferenceRope, PairsAndDirection) {
  // Pair (0, 2) turns by pos · θ^0, pair (1, 3) by nothing: one active frequency.
  Tensor x({2, 1, 5}, {1, 7, 0, 8, 9, 0, 7, 1, 8, 9});
  std::vector<int64_t> positions = {3, 3};
  Tensor y = rope(16, 4, 4, 1, positions, x);
  expectNear(y, {std::cos(3.0), 7, std::sin(3.0), 8, 9, -std::sin(3.0), 7, std::cos(3.0), 8, 9});
  // θ^(-2/4) = 1/4 for pair 1.
  y = ropeStd(16, 4, positions, x);
  EXPECT_NEAR(y.data[1], 7 * std::cos(0.75) - 8 * std::sin(0.75), 8 * ulp);
  EXPECT_NEAR(y.data[3], 8 * std::cos(0.75) + 7 * std::sin(0.75), 8 * ulp);
  EXPECT_EQ(y.data[4], 9);
  // The exponent's denominator is a number of its own: θ^(-2/8) = 1/2.
  y = rope(16, 4, 8, 2, positions, x);
  EXPECT_NEAR(y.data[1], 7 * std::cos(1.5) - 8 * std::sin(1.5), 8 * ulp);
}

TEST(ReferenceRope, PublishedTables) {
  auto file =
      SafetensorsFile::open(GEMMA_SOURCE_DIR "/test/data/models/rope-tables/rope.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  auto doubles = [&](const char *name) {
    const SafetensorsEntry *entry = file->find(name);
    return entry ? widenAll(*entry->type, file->data(*entry)) : std::vector<double>();
  };
  std::vector<int64_t> positions(14);
  ASSERT_TRUE(file->find("positions"));
  auto bytes = file->data(*file->find("positions"));
  ASSERT_EQ(bytes.size(), positions.size() * 8);
  std::memcpy(positions.data(), bytes.data(), bytes.size());
  ASSERT_EQ(positions.back(), 262143);

  struct Case {
    const char *name;
    double theta;
    int64_t dim, active;
  };
  for (Case c : {Case{"sliding_attention", 1e4, 256, 128}, Case{"full_attention", 1e6, 512, 64}}) {
    std::string name = c.name;
    std::vector<double> cosines = doubles((name + ".cos").c_str());
    std::vector<double> sines = doubles((name + ".sin").c_str());
    ASSERT_EQ(int64_t(cosines.size()), 14 * c.active);
    ASSERT_EQ(int64_t(sines.size()), 14 * c.active);
    // Turning (1, 0) gives (cos, sin).
    Tensor x({14, 1, c.dim});
    for (int64_t t = 0; t < 14; ++t)
      std::fill_n(x.row(t).begin(), c.dim / 2, 1.0);
    Tensor y = rope(c.theta, c.dim, c.dim, c.active, positions, x);
    double worst = 0;
    for (int64_t t = 0; t < 14; ++t)
      for (int64_t i = 0; i < c.active; ++i) {
        size_t at = size_t(t * c.active + i);
        worst = std::max(worst, std::fabs(y.row(t)[size_t(i)] - cosines[at]));
        worst = std::max(worst, std::fabs(y.row(t)[size_t(i + c.dim / 2)] - sines[at]));
      }
    EXPECT_LE(worst, 1e-15) << name;
  }
}

TEST(ReferenceRope, KeysOfValuesAreTheKeysOfTheModel) {
  // V is the raw projection, normed; K that with the norm's weight, rotated.
  std::vector<int64_t> positions = {0, 1, 511, 512, 131071, 262143};
  Tensor raw = scattered({6, 2, 16}, 3), w = scattered({16}, 4);
  Tensor keys = rope(1e6, 16, 16, 4, positions, rmsnorm(1e-6, raw, w));
  Tensor got = keysOfValues(1e6, 16, 16, 4, w, positions, rmsnormUnit(1e-6, raw));
  EXPECT_EQ(got.shape, keys.shape);
  expectNear(got, keys.data);
}

TEST(ReferenceAttention, WhatIsVisible) {
  // Equal keys: the mean of the visible values.
  Tensor q({3, 1, 1}, {1, 1, 1}), k({3, 1, 1}, {5, 5, 5}), v({3, 1, 1}, {3, 6, 12});
  std::vector<int64_t> positions = {0, 1, 2};
  expectNear(gqa(1, std::nullopt, positions, q, k, v), {3, 4.5, 7});
  expectNear(gqa(1, 2, positions, q, k, v), {3, 4.5, 9});
  expectNear(gqa(1, 1, positions, q, k, v), {3, 6, 12});
  // Decode: one query at the last position.
  std::vector<int64_t> last = {2};
  expectNear(gqa(1, std::nullopt, last, Tensor({1, 1, 1}, {1}), k, v), {7});
}

TEST(ReferenceAttention, WeightsOfTheKeys) {
  // Scores 0 and scale · ln 3: weights 1/4 and 3/4.
  Tensor q({1, 1, 1}, {2}), k({2, 1, 1}, {0, std::log(3.0)}), v({2, 1, 1}, {8, 16});
  std::vector<int64_t> positions = {1};
  expectNear(gqa(0.5, std::nullopt, positions, q, k, v), {14});
  // e^x of the scores themselves has no double.
  k.data[1] = 1e5;
  expectNear(gqa(1, std::nullopt, positions, q, k, v), {16});
}

TEST(ReferenceAttention, HeadsShareKeys) {
  // Every query head on its own, with its key/value head alone, gives the same.
  int64_t heads = 4, kvHeads = 2, dim = 3, keys = 5;
  Tensor q = scattered({2, heads, dim}, 1), k = scattered({keys, kvHeads, dim}, 2);
  Tensor v = scattered({keys, kvHeads, dim}, 3);
  std::vector<int64_t> positions = {2, 4};
  Tensor o = gqa(1, 3, positions, q, k, v);
  auto headOf = [&](const Tensor &x, int64_t h) {
    Tensor y({x.dim(0), 1, dim});
    for (int64_t t = 0; t < x.dim(0); ++t)
      std::copy_n(x.row(t * x.dim(1) + h).begin(), dim, y.row(t).begin());
    return y;
  };
  for (int64_t h = 0; h < heads; ++h)
    EXPECT_EQ(headOf(o, h), gqa(1, 3, positions, headOf(q, h), headOf(k, h / 2), headOf(v, h / 2)));
}

TEST(ReferenceAttention, SigmoidGate) {
  expectNear(sigmoidGate(Tensor({1, 2}, {4, 5}), Tensor({1, 2}, {std::log(3.0), 0})), {3, 2.5});
}

TEST(ReferenceTopK, TiesByIndex) {
  TopK top = topK(3, Tensor({2, 4}, {1, 5, 5, 2, 0, -1, 0, -2}));
  EXPECT_EQ(top.values.data, (std::vector<double>{5, 5, 2, 0, 0, -1}));
  EXPECT_EQ(top.ids, (std::vector<int32_t>{1, 2, 3, 0, 2, 1}));
}

} // namespace
