// quantizeGroup() as compiled for each instruction set: the same bytes of every group.
#include "runtime/weights/Quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

using namespace gemma;

namespace {

/// What a row of a group holds, and its name for messages.
struct Row {
  std::string kind;
  std::array<float, groupColumns> x;
};

/// Rows of every kind, all of them within quantizedLimit().
class Rows {
public:
  Rows(ScalarType storage, unsigned seed)
      : most(storage == ScalarType::I8 ? 127 : 8), limit(quantizedLimit(storage)), engine(seed) {}

  std::vector<Row> all() {
    addConstant();
    addOneHuge();
    addTiny();
    addTies();
    addEdgesOfScales();
    for (int i = 0; i < 2000; ++i)
      addRandom();
    return std::move(rows);
  }

private:
  void add(std::string kind, const std::function<float(size_t)> &element) {
    Row row{std::move(kind), {}};
    for (size_t k = 0; k < groupColumns; ++k)
      row.x[k] = element(k);
    rows.push_back(row);
  }
  float uniform(float from, float to) {
    return std::uniform_real_distribution<float>(from, to)(engine);
  }
  float normal(float deviation) { return std::normal_distribution<float>(0, deviation)(engine); }
  int integer(int from, int to) { return std::uniform_int_distribution<int>(from, to)(engine); }
  float anySign() { return engine() % 2 ? 1 : -1; }
  /// A row whose element of largest magnitude is `largest`, among smaller ones.
  void addLargest(const std::string &kind, float largest) {
    size_t place = engine() % groupColumns;
    add(kind, [&](size_t k) { return k == place ? largest : largest * uniform(-0.99F, 0.99F); });
  }

  void addConstant() {
    add("zeros", [](size_t) { return 0.0F; });
    add("negative zeros", [](size_t) { return -0.0F; });
    add("zeros of both signs", [](size_t k) { return k % 3 ? 0.0F : -0.0F; });
    for (float value : {1.0F, 0.3F, 1e-3F, 0x1p-24F, 0x1p-30F, 1e-42F, limit})
      for (float sign : {1.0F, -1.0F}) {
        add("all equal", [&](size_t) { return sign * value; });
        add("one magnitude", [&](size_t k) { return k % 2 ? sign * value : -sign * value; });
      }
  }

  void addOneHuge() {
    for (float huge : {1.0F, 100.0F, limit, -1.0F, -100.0F, -limit})
      for (float rest : {0.02F, 1e-6F, 1e-41F, 0.0F})
        for (size_t place : {size_t(0), size_t(17), groupColumns - 1})
          add("one huge", [&](size_t k) { return k == place ? huge : normal(1) * rest; });
  }

  void addTiny() {
    for (int i = 0; i < 8; ++i)
      add("denormals",
          [&](size_t) { return anySign() * std::bit_cast<float>(uint32_t(engine()) & 0x7fffffU); });
    // Around the smallest scales: subnormals of f16, and what rounds to none.
    for (float scale : {0.25F, 0.49F, 0.5F, 0.5000001F, 0.75F, 1.0F, 1.5F, 2.5F, 1023.5F, 1024.0F})
      for (int i = 0; i < 4; ++i)
        addLargest("tiny scales", anySign() * scale * most * 0x1p-24F);
  }

  /// Elements in the middle between two codes: of scales that are powers of two, and of others,
  /// whose products with inverses are near the middle or round to it.
  void addTies() {
    for (int exponent : {-24, -20, -14, -13, -5, 0, 9, 15})
      for (float sign : {1.0F, -1.0F})
        add("ties", [&](size_t k) {
          float code = k == 3 ? -most : float(integer(-int(most), int(most) - 1)) + 0.5F;
          return std::ldexp(sign * code, exponent);
        });
    for (int i = 0; i < 200; ++i) {
      float scale = std::ldexp(float(integer(1024, 2047)), integer(-24, -6));
      add("near ties", [&](size_t k) {
        float code = k == 3 ? -most : float(integer(-int(most), int(most) - 1)) + 0.5F;
        return code * scale;
      });
      // In pairs around an even code, to which both round: no other scale is better.
      float even = 0;
      add("pairs of near ties", [&](size_t k) {
        if (k % 2 == 0)
          even = 2 * float(integer(1 - int(most) / 2, int(most) / 2 - 1));
        float code = k == 0 ? -most : k == 1 ? 1 : k % 2 == 0 ? even + 0.5F : even - 0.5F;
        return code * scale;
      });
    }
    // The largest magnitude with both signs: which one is met first decides.
    for (int i = 0; i < 8; ++i) {
      size_t first = engine() % groupColumns, second = engine() % groupColumns;
      float largest = uniform(0.5F, 2);
      add("two largest", [&](size_t k) {
        return k == first ? largest : k == second ? -largest : largest * uniform(-0.9F, 0.9F);
      });
    }
  }

  /// Scales around the borders of f16: between two of its values, where it becomes subnormal, and
  /// near its end.
  void addEdgesOfScales() {
    for (int i = 0; i < 16; ++i) {
      float half = std::ldexp(float(integer(1024, 2047)) + 0.5F, integer(-24, 4));
      for (float nearby : {half, std::nextafter(half, 0.0F), std::nextafter(half, HUGE_VALF)})
        addLargest("between two scales", anySign() * most * nearby);
    }
    for (float factor : {0.999F, 0.9996F, 0x1.fffffep-1F, 1.0F, 0x1.000002p0F, 1.0003F, 1.001F})
      for (float edge : {most * 0x1p-14F, most * 0x1p-13F, limit / 1.0011F})
        for (int i = 0; i < 2; ++i)
          addLargest("edges of f16", anySign() * edge * factor);
  }

  void addRandom() {
    float deviation = std::ldexp(1.0F, integer(-34, 10));
    add("normal", [&](size_t) { return normal(deviation); });
    add("negative", [&](size_t) { return -std::abs(normal(deviation)); });
    add("positive", [&](size_t) { return std::abs(normal(deviation)); });
    add("all magnitudes",
        [&](size_t) { return std::ldexp(uniform(-1, 1), integer(-150, most == 8 ? 18 : 22)); });
    add("few values", [&](size_t) { return float(integer(-3, 3)) * deviation; });
  }

  float most, limit;
  std::mt19937 engine;
  std::vector<Row> rows;
};

/// What a variant makes of a group; what it leaves alone stays as it was.
struct Result {
  uint32_t largest = 0;
  std::array<std::byte, groupCodeBytes(ScalarType::I8)> codes{};
  std::array<uint16_t, panelLanes> scales{};

  Result(const QuantizeVariant &variant, ScalarType storage, const GroupValues &x) {
    codes.fill(std::byte(0xa5));
    scales.fill(0xa5a5);
    largest = variant.quantize(storage, x, codes.data(), scales.data());
  }
  bool sameRow(const Result &other, size_t row) const {
    for (size_t at = 0; at < codes.size(); ++at)
      if (at / 4 % panelLanes == row && codes[at] != other.codes[at])
        return false;
    return scales[row] == other.scales[row];
  }
};

using Parameter = std::tuple<ScalarType, QuantizeVariant>;

/// The variant of every processor is what the others are compared with.
class QuantizeVariants : public testing::TestWithParam<Parameter> {
protected:
  void SetUp() override {
    if (!variant.runs)
      GTEST_SKIP() << "this processor lacks " << variant.isa;
  }
  ScalarType storage = std::get<0>(GetParam());
  QuantizeVariant variant = std::get<1>(GetParam());
  QuantizeVariant plain = quantizeVariants().back();
};

TEST_P(QuantizeVariants, GiveTheSameBytes) {
  for (unsigned seed : {1, 2}) {
    std::vector<Row> rows = Rows(storage, seed).all();
    std::shuffle(rows.begin(), rows.end(), std::mt19937(seed));
    for (size_t first = 0; first + panelLanes <= rows.size(); first += panelLanes) {
      GroupValues x;
      for (size_t k = 0; k < groupColumns; ++k)
        for (size_t r = 0; r < panelLanes; ++r)
          x[k][r] = rows[first + r].x[k];
      Result got(variant, storage, x), want(plain, storage, x);
      ASSERT_EQ(got.largest, want.largest);
      ASSERT_LE(want.largest, std::bit_cast<uint32_t>(quantizedLimit(storage)));
      for (size_t r = 0; r < panelLanes; ++r)
        ASSERT_TRUE(got.sameRow(want, r)) << rows[first + r].kind << ", row " << r;
    }
  }
}

/// What has no codes is told by the bits of the largest magnitude.
TEST_P(QuantizeVariants, RefuseTheSameValues) {
  float limit = quantizedLimit(storage);
  for (float bad :
       {NAN, -NAN, HUGE_VALF, -HUGE_VALF, std::nextafter(limit, HUGE_VALF), -2 * limit, 3.4e38F})
    for (size_t row = 0; row < panelLanes; ++row) {
      GroupValues x{};
      x[0].fill(0.5F);
      x[7 * row % groupColumns][row] = bad;
      Result got(variant, storage, x), want(plain, storage, x);
      EXPECT_EQ(got.largest, want.largest) << bad;
      EXPECT_EQ(got.largest, std::bit_cast<uint32_t>(bad) & 0x7fffffffU) << bad;
    }
}

INSTANTIATE_TEST_SUITE_P(Isas, QuantizeVariants,
                         testing::Combine(testing::Values(ScalarType::I8, ScalarType::I4),
                                          testing::ValuesIn(quantizeVariants().begin(),
                                                            quantizeVariants().end())),
                         [](const auto &info) {
                           return std::string(name(std::get<0>(info.param))) + "_" +
                                  std::get<1>(info.param).isa;
                         });

} // namespace
