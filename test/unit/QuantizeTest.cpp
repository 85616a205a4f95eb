// Quantised weights: layout, rounding, the search for scales, and what has no code.
#include "TestFiles.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/support/BFloat16.h"
#include "runtime/weights/Packer.h"
#include "runtime/weights/Quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

using namespace gemma;

namespace {

/// Matrices that lie in memory, all of f32.
class MemoryTensors final : public TensorSource {
public:
  void add(const std::string &name, int64_t rows, int64_t columns, std::vector<float> values) {
    table[name].type = ScalarType::F32;
    table[name].shape = {rows, columns};
    data[name] = std::move(values);
  }
  const TensorTable &tensors() const override { return table; }
  std::string title() const override { return "memory"; }
  void read(const std::string &name, const TensorInfo &, uint64_t first,
            std::span<float> out) const override {
    std::copy_n(data.at(name).begin() + int64_t(first), out.size(), out.begin());
  }
  void read(const std::string &name, const TensorInfo &, uint64_t first,
            std::span<double> out) const override {
    std::copy_n(data.at(name).begin() + int64_t(first), out.size(), out.begin());
  }

private:
  TensorTable table;
  std::map<std::string, std::vector<float>> data;
};

std::vector<float> normal(size_t count, float deviation, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> distribution(0, deviation);
  std::vector<float> out(count);
  for (float &value : out)
    value = distribution(generator);
  return out;
}

WeightRecipe quantized(ScalarType storage, std::vector<std::string> sources, int64_t rows,
                       int64_t columns, int64_t interleave = 1) {
  WeightRecipe recipe{"w", std::move(sources), {rows, columns}, storage, 16, 4, interleave, 0, 32};
  recipe.bytes = packedBytes(recipe).value_or(0);
  return recipe;
}

struct Packed {
  WeightRecipe recipe;
  std::vector<std::byte> bytes;

  /// Code and scale of row m of a panel.
  std::pair<int, float> at(int64_t panel, int64_t m, int64_t k) const {
    int64_t groups = (recipe.shape[1] + 31) / 32, place = panel * groups + k / 32;
    int64_t j = k % 32 / 4, i = k % 4;
    int code = 0;
    if (recipe.storage == ScalarType::I8)
      code = int(bytes[size_t(place * 512 + j * 64 + m * 4 + i)]) - 128;
    else
      code = int((bytes[size_t(place * 256 + j % 4 * 64 + m * 4 + i)] >> (j < 4 ? 0 : 4)) &
                 std::byte(15)) -
             8;
    uint16_t scale = 0;
    std::memcpy(&scale, bytes.data() + *scaleOffset(recipe) + size_t(place * 16 + m) * sizeof scale,
                sizeof scale);
    return {code, f16ToF32(scale)};
  }
  float value(int64_t panel, int64_t m, int64_t k) const {
    auto [code, scale] = at(panel, m, k);
    return float(code) * scale;
  }
};

Packed pack(const WeightRecipe &recipe, const TensorSource &tensors, int threads = 2) {
  Packed out{recipe, std::vector<std::byte>(recipe.bytes)};
  Status status = packWeight(recipe, tensors, threads, out.bytes);
  EXPECT_TRUE(status) << status.error().message;
  return out;
}

class Quantize : public testing::TestWithParam<ScalarType> {};

TEST_P(Quantize, EveryPlaceOfOddShapes) {
  for (int64_t rows : {1, 7, 16, 17, 37})
    for (int64_t columns : {1, 15, 31, 32, 33, 70}) {
      MemoryTensors tensors;
      std::vector<float> x = normal(size_t(rows * columns), 0.02F, unsigned(rows * 100 + columns));
      tensors.add("x", rows, columns, x);
      Packed packed = pack(quantized(GetParam(), {"x"}, rows, columns), tensors);
      for (int64_t n = 0; n < (rows + 15) / 16 * 16; ++n)
        for (int64_t k = 0; k < (columns + 31) / 32 * 32; ++k) {
          auto [code, scale] = packed.at(n / 16, n % 16, k);
          if (n >= rows || k >= columns) {
            ASSERT_EQ(code, 0) << rows << "x" << columns << " at " << n << ", " << k;
            if (n >= rows)
              ASSERT_EQ(scale, 0);
            continue;
          }
          float value = x[size_t(n * columns + k)],
                least = GetParam() == ScalarType::I4 ? -8 : -127,
                most = GetParam() == ScalarType::I4 ? 7 : 127;
          float wanted = std::clamp(std::nearbyint(value / scale), least, most);
          // A quotient near a half may round either way.
          ASSERT_LE(std::abs(float(code) - wanted), 1) << n << ", " << k;
          ASSERT_LE(std::abs(value - float(code) * scale),
                    std::abs(value - wanted * scale) * 1.0001F + 1e-9F);
        }
    }
}

TEST_P(Quantize, InterleavesHalvesOfOddRows) {
  MemoryTensors tensors;
  tensors.add("gate", 21, 40, normal(21 * 40, 0.02F, 1));
  tensors.add("up", 21, 40, normal(21 * 40, 0.02F, 2));
  Packed both = pack(quantized(GetParam(), {"gate", "up"}, 42, 40, 2), tensors);
  Packed gate = pack(quantized(GetParam(), {"gate"}, 21, 40), tensors);
  Packed up = pack(quantized(GetParam(), {"up"}, 21, 40), tensors);
  for (int64_t n = 0; n < 32; ++n)
    for (int64_t k = 0; k < 64; ++k) {
      ASSERT_EQ(both.at(n / 16 * 2, n % 16, k), gate.at(n / 16, n % 16, k));
      ASSERT_EQ(both.at(n / 16 * 2 + 1, n % 16, k), up.at(n / 16, n % 16, k));
    }
}

TEST_P(Quantize, ThreadsDoNotMatter) {
  MemoryTensors tensors;
  tensors.add("x", 200, 96, normal(200 * 96, 0.02F, 3));
  WeightRecipe recipe = quantized(GetParam(), {"x"}, 200, 96);
  EXPECT_EQ(pack(recipe, tensors, 1).bytes, pack(recipe, tensors, 5).bytes);
}

// Multiples of a scale that f16 has come back exactly, from subnormal scales to the largest.
TEST_P(Quantize, ExactValuesStayExact) {
  int most = GetParam() == ScalarType::I4 ? 8 : 127;
  for (float scale : {0x1p-24F, 0x1.8p-20F, 0x1p-14F, 0x1.4p-8F, 1.0F, 0x1.ffcp15F}) {
    std::vector<float> x(32);
    for (int k = 0; k < 32; ++k)
      x[size_t(k)] = float(k == 5 ? -most : (k * 7) % most - most / 2) * scale;
    MemoryTensors tensors;
    tensors.add("x", 1, 32, x);
    Packed packed = pack(quantized(GetParam(), {"x"}, 1, 32), tensors);
    for (int k = 0; k < 32; ++k)
      EXPECT_EQ(packed.value(0, 0, k), x[size_t(k)]) << scale << " " << k;
  }
}

TEST_P(Quantize, ZerosAndWhatF16CannotScaleBecomeZero) {
  for (float value : {0.0F, -0.0F, 1e-9F, 1e-40F}) {
    MemoryTensors tensors;
    tensors.add("x", 2, 33, std::vector<float>(66, value));
    Packed packed = pack(quantized(GetParam(), {"x"}, 2, 33), tensors);
    for (int64_t k = 0; k < 64; ++k)
      EXPECT_EQ(packed.at(0, 1, k), std::pair(0, 0.0F));
  }
}

TEST_P(Quantize, NamesTheValueThatHasNoCode) {
  float limit = quantizedLimit(GetParam());
  for (float bad : {NAN, INFINITY, -INFINITY, limit * 1.001F}) {
    MemoryTensors tensors;
    std::vector<float> x(20 * 40, 0.5F);
    tensors.add("a", 20, 40, x);
    x[19 * 40 + 33] = bad;
    tensors.add("b.weight", 20, 40, x);
    WeightRecipe recipe = quantized(GetParam(), {"a", "b.weight"}, 40, 40);
    std::vector<std::byte> out(recipe.bytes);
    EXPECT_ERROR(packWeight(recipe, tensors, 2, out),
                 "memory: tensor \"b.weight\": row 19, column 33: expected a value within");
  }
  MemoryTensors tensors;
  tensors.add("x", 1, 32, std::vector<float>(32, -limit));
  EXPECT_EQ(pack(quantized(GetParam(), {"x"}, 1, 32), tensors).value(0, 0, 31), -limit);
}

INSTANTIATE_TEST_SUITE_P(Types, Quantize, testing::Values(ScalarType::I8, ScalarType::I4),
                         [](const auto &info) { return std::string(name(info.param)); });

/// To f16 and back, by definition: the nearest of all values, ties to the even one.
float halfOf(float value) {
  static const std::vector<float> all = [] {
    std::vector<float> out;
    for (uint16_t bits = 0; bits < 0x7c00; ++bits)
      out.push_back(f16ToF32(bits));
    return out;
  }();
  auto upper = std::lower_bound(all.begin(), all.end(), std::abs(value));
  if (upper == all.end())
    return std::copysign(all.back(), value);
  if (upper == all.begin())
    return std::copysign(0.0F, value);
  double below = double(std::abs(value)) - double(*(upper - 1)),
         above = double(*upper) - double(std::abs(value));
  bool odd = (upper - all.begin()) % 2 != 0;
  return std::copysign(below < above || (below == above && odd) ? *(upper - 1) : *upper, value);
}

float rowError(const std::vector<float> &x, float scale) {
  float inverse = scale != 0 ? 1 / scale : 0, error = 0;
  for (float value : x) {
    float rest = value - std::clamp(std::nearbyint(value * inverse), -8.0F, 7.0F) * scale;
    error += rest * rest;
  }
  return error;
}

// The scale is the best of those that 0017 names; the vectors of every instruction set choose as
// this plain loop does.
TEST(QuantizeInt4, TakesTheScaleOfLeastSquaredError) {
  double searched = 0, nearest = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::vector<float> x = normal(32, std::ldexp(1.0F, int(seed % 40) - 24), seed);
    MemoryTensors tensors;
    tensors.add("x", 1, 32, x);
    float scale = pack(quantized(ScalarType::I4, {"x"}, 1, 32), tensors).at(0, 0, 0).second;
    float largest = *std::max_element(x.begin(), x.end(),
                                      [](float a, float b) { return std::abs(a) < std::abs(b); });
    float best = 0, bestError = INFINITY;
    for (float divisor :
         {-8.0F, -7.7F, -8.3F, -7.4F, -8.6F, -7.1F, -8.9F, -6.8F, -9.2F, -6.5F, -9.5F}) {
      float tried = halfOf(largest / divisor);
      if (float error = rowError(x, tried); error < bestError) {
        best = tried;
        bestError = error;
      }
    }
    float products = 0, squares = 0, inverse = best != 0 ? 1 / best : 0;
    for (float value : x) {
      float code = std::clamp(std::nearbyint(value * inverse), -8.0F, 7.0F);
      products += value * code;
      squares += code * code;
    }
    if (float fitted = halfOf(squares > 0 ? products / squares : 0);
        rowError(x, fitted) < bestError)
      best = fitted;
    ASSERT_EQ(scale, best) << seed;
    if (seed % 40 < 14)
      continue; // f16 has few scales as small as these want
    double size = 0;
    for (float value : x)
      size += double(value) * double(value);
    searched += rowError(x, scale) / size;
    nearest += rowError(x, halfOf(std::abs(largest) / 7)) / size;
  }
  // Of normal values the error's square falls by 30 %.
  EXPECT_LT(searched, 0.75 * nearest);
}

} // namespace
