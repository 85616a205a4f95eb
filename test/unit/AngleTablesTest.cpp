#include "runtime/engine/AngleTables.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Widen.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

using namespace gemma;

namespace {

std::array<std::vector<double>, 4> lanesOf(const TablePlan &table) {
  std::array<std::vector<double>, 4> lanes;
  for (size_t lane = 0; lane < 4; ++lane) {
    std::vector<std::byte> bytes(*tableLaneBytes(table));
    fillAngleLane(table, lane, bytes);
    lanes[lane] = widenAll(table.elem, bytes);
  }
  return lanes;
}

TEST(AngleTables, MatchTheReferenceAtAllItsPositions) {
  Expected<SafetensorsFile> file = SafetensorsFile::open(
      std::filesystem::path(GEMMA_SOURCE_DIR) / "test/data/models/rope-tables/rope.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  const SafetensorsEntry *positionsEntry = file->find("positions");
  ASSERT_NE(positionsEntry, nullptr);
  auto doubles = [&](const std::string &name) {
    const SafetensorsEntry *entry = file->find(name);
    EXPECT_NE(entry, nullptr) << name;
    return entry ? widenAll(*entry->type, file->data(*entry)) : std::vector<double>();
  };
  std::vector<int64_t> positions(positionsEntry->bytes / 8);
  std::memcpy(positions.data(), file->data(*positionsEntry).data(), positionsEntry->bytes);
  ASSERT_GT(positions.size(), 10u);
  for (auto [name, table] : {std::pair<std::string, TablePlan>{
                                 "sliding_attention", {"s", 1.0e4, 256, 128, ScalarType::F64}},
                             {"full_attention", {"g", 1.0e6, 512, 64, ScalarType::F64}}}) {
    auto lanes = lanesOf(table);
    std::vector<double> cosines = doubles(name + ".cos"), sines = doubles(name + ".sin");
    size_t width = cosines.size() / positions.size();
    ASSERT_GE(width, size_t(table.active));
    double worst = 0;
    for (size_t p = 0; p < positions.size(); ++p)
      for (size_t i = 0; i < size_t(table.active); ++i) {
        size_t hi = size_t(positions[p] / 512) * size_t(table.active) + i;
        size_t lo = size_t(positions[p] % 512) * size_t(table.active) + i;
        double c = lanes[0][hi] * lanes[2][lo] - lanes[1][hi] * lanes[3][lo];
        double s = lanes[1][hi] * lanes[2][lo] + lanes[0][hi] * lanes[3][lo];
        // Both are made in 80-bit arithmetic, whose error grows with the angle; the product of two
        // rounded doubles adds its own.
        double bound = 5e-16 + 6e-20 * double(positions[p]);
        double error =
            std::max(std::abs(c - cosines[p * width + i]), std::abs(s - sines[p * width + i]));
        worst = std::max(worst, error / bound);
      }
    EXPECT_LT(worst, 1) << name;
  }
}

TEST(AngleTables, FloatLanesAreRoundedDoubles) {
  TablePlan table{"s", 1.0e4, 16, 8, ScalarType::F64}, narrow = table;
  narrow.elem = ScalarType::F32;
  auto wide = lanesOf(table), rounded = lanesOf(narrow);
  for (size_t lane = 0; lane < 4; ++lane)
    for (size_t i = 0; i < wide[lane].size(); ++i)
      ASSERT_NEAR(wide[lane][i], rounded[lane][i], 6e-8);
  // Position 0 is the identity.
  EXPECT_EQ(rounded[0][0], 1);
  EXPECT_EQ(rounded[1][0], 0);
}

} // namespace
