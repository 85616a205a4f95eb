#include "runtime/abi/ProgramSizes.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/support/BFloat16.h"
#include "runtime/weights/WeightArena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

using namespace gemma;

namespace {

std::filesystem::path models() {
  return std::filesystem::path(GEMMA_SOURCE_DIR) / "test/data/models";
}

class PackerTest : public ::testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    Expected<Checkpoint> opened = Checkpoint::open(models() / GetParam());
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    checkpoint.emplace(std::move(*opened));
  }

  /// The logical matrix, widened.
  std::vector<double> logical(const WeightRecipe &recipe) const {
    std::vector<double> all;
    for (const std::string &name : recipe.sources) {
      const TensorInfo &tensor = checkpoint->tensors().at(name);
      std::vector<double> part = widenAll(tensor.type, checkpoint->data(tensor));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  static double rounded(double value, ScalarType type) {
    if (type == ScalarType::F32)
      return double(float(value));
    if (type == ScalarType::BF16) // sources here have at most float's precision
      return double(bf16ToF32(f32ToBf16(float(value))));
    return value;
  }

  /// Compares the packed bytes with the definition of the layout, padding included.
  void check(WeightRecipe recipe, int threads) {
    int64_t rows = recipe.shape[0], columns = recipe.shape.size() == 2 ? recipe.shape[1] : 1;
    recipe.bytes = *packedBytes(recipe);
    std::vector<double> source = logical(recipe);
    ASSERT_EQ(int64_t(source.size()), rows * columns);
    std::vector<double> expected(recipe.bytes / byteWidth(recipe.storage), 0.0);
    int64_t parts = recipe.interleave, kpack = recipe.kpack;
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t k = 0; k < columns; ++k) {
        int64_t at = n * columns + k;
        if (recipe.panel) {
          int64_t part = n / (rows / parts), m = n % (rows / parts);
          int64_t panel = m / recipe.panel * parts + part;
          int64_t groups = (columns + kpack - 1) / kpack;
          if (recipe.panel == 8) { // for tensor cores
            int64_t panels = int64_t(expected.size()) / (groups * 8 * 64);
            at =
                ((k / 64 * panels + panel) * 8 + m % 8) * 64 + ((k % 64 / 8) ^ (m % 8)) * 8 + k % 8;
          } else {
            at = ((panel * groups + k / kpack) * 16 + m % 16) * kpack + k % kpack;
          }
        }
        expected[size_t(at)] = rounded(source[size_t(n * columns + k)], recipe.storage);
      }
    std::vector<std::byte> out(recipe.bytes);
    Status status = packWeight(recipe, CheckpointTensors(*checkpoint), threads, out);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(widenAll(recipe.storage, out), expected) << recipe.name;
  }

  std::optional<Checkpoint> checkpoint;
};

TEST_P(PackerTest, AllLayoutsAndTypes) {
  const ModelConfig &config = checkpoint->config();
  int64_t hidden = config.hidden, mlp = config.intermediate;
  int64_t q = config.heads * config.sliding.headDim,
          kv = config.sliding.kvHeads * config.sliding.headDim;
  std::string layer = "layers.0.";
  for (ScalarType storage : {ScalarType::F64, ScalarType::F32, ScalarType::BF16})
    for (int threads : {1, 3}) {
      check({"norm", {"norm.weight"}, {hidden}, storage, 0, 1, 1, 0}, threads);
      check({"embed", {"embed_tokens.weight"}, {config.vocab, hidden}, storage, 0, 1, 1, 0},
            threads);
      std::vector<std::string> qkv = {layer + "self_attn.q_proj.weight",
                                      layer + "self_attn.k_proj.weight",
                                      layer + "self_attn.v_proj.weight"};
      std::vector<std::string> gateUp = {layer + "mlp.gate_proj.weight",
                                         layer + "mlp.up_proj.weight"};
      for (auto [panel, kpack] :
           std::vector<std::pair<int64_t, int64_t>>{{16, 1}, {16, 2}, {8, 64}}) {
        check(
            {"head", {"embed_tokens.weight"}, {config.vocab, hidden}, storage, panel, kpack, 1, 0},
            threads);
        check({"qkv", qkv, {q + 2 * kv, hidden}, storage, panel, kpack, 1, 0}, threads);
        check({"gate_up", gateUp, {2 * mlp, hidden}, storage, panel, kpack, 2, 0}, threads);
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Models, PackerTest, ::testing::Values("text-only-f32", "narrow-12b"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Packer, OddColumnsArePaddedWithZeros) {
  WeightRecipe recipe{"w", {"x"}, {17, 5}, ScalarType::BF16, 16, 2, 1, 0};
  EXPECT_EQ(packedBytes(recipe), 2u * 3 * 16 * 2 * 2);
  recipe = {"w", {"x"}, {2 * 17, 5}, ScalarType::F32, 16, 1, 2, 0};
  EXPECT_EQ(packedBytes(recipe), 4u * 5 * 16 * 4);
  recipe.shape = {17, 5};
  EXPECT_EQ(packedBytes(recipe), std::nullopt); // halves of 8.5 rows
  recipe = {"w", {"x"}, {INT64_MAX, 2}, ScalarType::F32, 0, 1, 1, 0};
  EXPECT_EQ(packedBytes(recipe), std::nullopt);
  recipe = {"w", {"x"}, {4, 4}, ScalarType::F16, 0, 1, 1, 0};
  EXPECT_EQ(packedBytes(recipe), std::nullopt);
}

TEST(Packer, BytesOfQuantizedWeights) {
  // 2 panels of 2 groups (the second of one column): codes, then f16 scales.
  WeightRecipe recipe{"w", {"x"}, {17, 33}, ScalarType::I8, 16, 4, 1, 0, 32};
  EXPECT_EQ(scaleOffset(recipe), 4u * 512);
  EXPECT_EQ(packedBytes(recipe), 4u * 512 + 4 * 32);
  recipe.storage = ScalarType::I4;
  EXPECT_EQ(scaleOffset(recipe), 4u * 256);
  EXPECT_EQ(packedBytes(recipe), 4u * 256 + 4 * 32);
  recipe.shape = {2 * 17, 32};
  recipe.interleave = 2;
  EXPECT_EQ(packedBytes(recipe), 4u * 256 + 4 * 32);
  for (auto change : std::initializer_list<void (*)(WeightRecipe &)>{
           [](WeightRecipe &w) { w.group = 0; }, [](WeightRecipe &w) { w.group = 64; },
           [](WeightRecipe &w) { w.kpack = 2; }, [](WeightRecipe &w) { w.panel = 8; },
           [](WeightRecipe &w) { w.panel = 0; }, [](WeightRecipe &w) { w.shape = {34}; },
           [](WeightRecipe &w) { w.interleave = 3; }, [](WeightRecipe &w) { w.shape[0] = 33; },
           [](WeightRecipe &w) { w.shape[1] = 0; },
           [](WeightRecipe &w) { w.storage = ScalarType::BF16; },
           [](WeightRecipe &w) { w.storage = ScalarType::I16; }}) {
    WeightRecipe other = recipe;
    change(other);
    EXPECT_EQ(packedBytes(other), std::nullopt);
  }
}

TEST(Packer, NamesWhatDoesNotFit) {
  Expected<Checkpoint> checkpoint = Checkpoint::open(models() / "text-only-f32");
  ASSERT_TRUE(checkpoint.ok());
  WeightRecipe recipe{"w", {"nothing.weight"}, {4, 4}, ScalarType::F32, 0, 1, 1, 64};
  std::vector<std::byte> out(64);
  Status status = packWeight(recipe, CheckpointTensors(*checkpoint), 1, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("nothing.weight"), std::string::npos);
  recipe.sources = {"embed_tokens.weight"};
  status = packWeight(recipe, CheckpointTensors(*checkpoint), 1, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("shape"), std::string::npos);
  recipe.sources = {"norm.weight"};
  recipe.shape = {16};
  status = packWeight(recipe, CheckpointTensors(*checkpoint), 1, out);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("80 rows, expected 16"), std::string::npos);
}

TEST(Packer, ArenaIsExactlyThePlan) {
  Expected<Checkpoint> checkpoint = Checkpoint::open(models() / "text-only-f32");
  ASSERT_TRUE(checkpoint.ok());
  Program program;
  program.weights = {{"a", {"norm.weight"}, {80}, ScalarType::F32, 0, 1, 1, 320},
                     {"b", {"norm.weight"}, {80}, ScalarType::BF16, 0, 1, 1, 160},
                     {"c", {"norm.weight"}, {80}, ScalarType::F64, 0, 1, 1, 640}};
  uint64_t last = 0, total = 0;
  Expected<WeightArena> arena = WeightArena::pack(program, CheckpointTensors(*checkpoint), 2,
                                                  [&](uint64_t done, uint64_t all) {
                                                    EXPECT_GT(done, last);
                                                    last = done;
                                                    total = all;
                                                  });
  ASSERT_TRUE(arena.ok()) << arena.error().message;
  EXPECT_EQ(arena->bytes(), 320u + 192 + 640);
  EXPECT_EQ(total, arena->bytes());
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena->data(i)) % 64, 0u);
  std::span<const std::byte> source = checkpoint->data(checkpoint->tensors().at("norm.weight"));
  EXPECT_EQ(std::memcmp(arena->data(0), source.data(), 320), 0);
}

// Made-up weights are ordinary numbers in every place: ones, or small and not all alike.
TEST(Packer, MadeUpWeights) {
  Program program;
  program.weights = {{"vector", {"none"}, {80}, ScalarType::BF16, 0, 1, 1, 160},
                     {"matrix", {"none"}, {320, 100}, ScalarType::F32, 16, 1, 1, 128000}};
  Expected<WeightArena> arena = WeightArena::madeUp(program);
  ASSERT_TRUE(arena.ok()) << arena.error().message;
  EXPECT_EQ(arena->bytes(), 192u + 128000);
  for (size_t i = 0; i < 80; ++i) {
    uint16_t bits;
    std::memcpy(&bits, arena->data(0) + 2 * i, 2);
    EXPECT_EQ(bf16ToF32(bits), 1);
  }
  std::vector<float> matrix(32000);
  std::memcpy(matrix.data(), arena->data(1), 128000);
  for (float value : matrix) {
    ASSERT_LE(std::abs(value), 1.0f / 32);
    ASSERT_TRUE(value == 0 || std::isnormal(value));
  }
  for (ScalarType storage : {ScalarType::I8, ScalarType::I4}) {
    program.weights = {{"codes", {"none"}, {16, 64}, storage, 16, 4, 1, 0, 32}};
    program.weights[0].bytes = packedBytes(program.weights[0]).value_or(0);
    arena = WeightArena::madeUp(program);
    ASSERT_TRUE(arena.ok()) << arena.error().message;
    size_t codes = *scaleOffset(program.weights[0]);
    std::set<std::byte> seen(arena->data(0), arena->data(0) + codes);
    EXPECT_GT(seen.size(), 200u);
    EXPECT_EQ(seen.contains(std::byte(0)), storage == ScalarType::I4); // i8 has no code 0
    uint16_t scale = 0;
    std::memcpy(&scale, arena->data(0) + program.weights[0].bytes - 2, 2);
    EXPECT_EQ(f16ToF32(scale) * (storage == ScalarType::I8 ? 128 : 8), 1.0F / 32);
  }
  auto [least, most] = std::minmax_element(matrix.begin(), matrix.end());
  EXPECT_LT(*least, -0.03f);
  EXPECT_GT(*most, 0.03f);
}

} // namespace
