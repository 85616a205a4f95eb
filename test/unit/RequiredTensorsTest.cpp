// The tensors that a configuration asks for.
#include "runtime/checkpoint/Checkpoint.h"
#include "test/unit/ConfigFiles.h"

using namespace gemma;
using namespace gemma::test;

static void expectPublishedTensors(const std::string &model, int64_t parameters) {
  std::string stem = "test/data/models/published/" + model;
  TensorTable required = requiredTensors(readGood(stem + ".config.json"));
  json published = json::parse(readText(sourcePath(stem + ".tensors.json"))).at("tensors");
  EXPECT_EQ(required.size(), published.size());
  int64_t elements = 0;
  for (const auto &[canonical, tensor] : required) {
    std::string name = "model.language_model." + canonical;
    ASSERT_TRUE(published.contains(name)) << name;
    EXPECT_EQ(published.at(name).get<std::vector<int64_t>>(), tensor.shape) << name;
    int64_t product = 1;
    for (int64_t dim : tensor.shape)
      product *= dim;
    elements += product;
  }
  EXPECT_EQ(elements, parameters);
}

TEST(RequiredTensorsTest, AreThePublishedOnesOf12B) {
  expectPublishedTensors("gemma-4-12b", 11907350320);
}

TEST(RequiredTensorsTest, AreThePublishedOnesOf31B) {
  expectPublishedTensors("gemma-4-31b", 30697345340);
}

TEST(RequiredTensorsTest, UntiedModelNeedsAHead) {
  ModelConfig config = base();
  EXPECT_FALSE(requiredTensors(config).contains("lm_head.weight"));
  config.tiedHead = false;
  EXPECT_EQ(requiredTensors(config).at("lm_head.weight").shape, (std::vector<int64_t>{32, 16}));
}
