// Made-up weights: the same everywhere, and as large as they say.
#include "TestFiles.h"

#include "runtime/weights/SyntheticTensors.h"

#include <cmath>

using namespace gemma;

namespace {

ModelConfig smallConfig() {
  auto config = readModelConfig(test::sourcePath("test/data/models/text-only-f32/config.json"));
  EXPECT_TRUE(config) << config.error().message;
  return *config;
}

// These numbers stay: files packed from them on another machine must be the same.
TEST(SyntheticTensors, AreTheSameEverywhere) {
  SyntheticTensors tensors(smallConfig(), 7);
  std::string name = "layers.0.mlp.gate_proj.weight";
  const TensorInfo &tensor = tensors.tensors().at(name);
  std::vector<float> all(size_t(tensor.shape[0] * tensor.shape[1]));
  tensors.read(name, tensor, 0, std::span(all));
  std::vector<double> part(5);
  tensors.read(name, tensor, 3, std::span(part));
  for (size_t i = 0; i < part.size(); ++i)
    EXPECT_EQ(part[i], double(all[3 + i]));
  EXPECT_EQ(std::vector<float>(all.begin(), all.begin() + 4),
            std::vector<float>({0x1.dcp-5F, 0x1.2ap-7F, 0x1.dcp-4F, -0x1.0ap-7F}));
}

TEST(SyntheticTensors, DependOnSeedNameAndPlace) {
  ModelConfig config = smallConfig();
  SyntheticTensors first(config, 1), second(config, 2);
  auto values = [&](const SyntheticTensors &tensors, const std::string &name) {
    std::vector<float> out(64);
    tensors.read(name, tensors.tensors().at(name), 0, std::span(out));
    return out;
  };
  EXPECT_NE(values(first, "embed_tokens.weight"), values(second, "embed_tokens.weight"));
  EXPECT_NE(values(first, "layers.0.mlp.gate_proj.weight"),
            values(first, "layers.0.mlp.up_proj.weight"));
}

TEST(SyntheticTensors, HaveTheSizeThatTheySay) {
  ModelConfig config = smallConfig();
  SyntheticTensors tensors(config, 1);
  for (const auto &[name, tensor] : tensors.tensors()) {
    size_t count = 1;
    for (int64_t size : tensor.shape)
      count *= size_t(size);
    std::vector<double> x(count);
    tensors.read(name, tensor, 0, std::span(x));
    bool matrix = tensor.shape.size() == 2;
    double deviation = matrix ? 1 / std::sqrt(double(tensor.shape[1])) : 0.1;
    double mean = 0, square = 0;
    for (double &value : x) {
      value = (value - (matrix ? 0 : 1)) / deviation;
      ASSERT_LE(std::abs(value), 3.6) << name;
      mean += value / double(count);
      square += value * value / double(count);
    }
    EXPECT_LE(std::abs(mean), 5 / std::sqrt(double(count))) << name;
    if (count > 100)
      EXPECT_NEAR(square, 1, 8 / std::sqrt(double(count))) << name;
  }
}

} // namespace
