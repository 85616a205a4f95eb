#include "tools/verify/SpecKey.h"

#include "gtest/gtest.h"

using namespace gemma::verify;

namespace {

TEST(SpecKeyTest, PartsOfAKey) {
  SpecKey key = splitSpecKey("google/gemma-4-12B@1.0:layers[*].attn.core");
  EXPECT_EQ(key.model, "google/gemma-4-12B");
  EXPECT_EQ(key.version, "1.0");
  EXPECT_EQ(key.nodes, "layers[*].attn.core");
  key = splitSpecKey("google/gemma-4-31B");
  EXPECT_EQ(key.model, "google/gemma-4-31B");
  EXPECT_EQ(key.version, "");
  EXPECT_EQ(key.nodes, "");
}

TEST(SpecKeyTest, NodeKeys) {
  EXPECT_EQ(splitNodeKey("layers[13].attn.core").first, 13);
  EXPECT_EQ(splitNodeKey("layers[13].attn.core").second, "attn.core");
  EXPECT_EQ(splitNodeKey("lm_head").first, -1);
  EXPECT_EQ(splitNodeKey("lm_head").second, "lm_head");
}

struct PatternCase {
  const char *pattern;
  std::vector<const char *> in, out;
};

struct NodePatternTest : testing::TestWithParam<PatternCase> {};

TEST_P(NodePatternTest, Matches) {
  auto pattern = parseNodePattern(GetParam().pattern);
  ASSERT_TRUE(pattern) << pattern.error().message;
  for (const char *key : GetParam().in)
    EXPECT_TRUE(pattern->matches(key)) << key;
  for (const char *key : GetParam().out)
    EXPECT_FALSE(pattern->matches(key)) << key;
}

INSTANTIATE_TEST_SUITE_P(
    Patterns, NodePatternTest,
    testing::Values(
        PatternCase{"layers[*].attn.core",
                    {"layers[0].attn.core", "layers[47].attn.core"},
                    {"attn.core", "layers[0].attn.rope", "embed"}},
        PatternCase{"layers[3]", {"layers[3].mlp.act"}, {"layers[4].mlp.act", "lm_head"}},
        PatternCase{"layers[0-5].mlp",
                    {"layers[0].mlp.act", "layers[5].mlp.down"},
                    {"layers[6].mlp.act", "layers[0].mlp_residual", "layers[0].attn.core"}},
        PatternCase{"layers[1..2]", {"layers[2].mlp.act"}, {"layers[0].mlp.act"}},
        PatternCase{"mlp.act", {"layers[9].mlp.act"}, {"layers[9].mlp.down", "embed"}},
        PatternCase{"lm_head", {"lm_head"}, {"layers[0].lm_head", "embed"}}),
    [](const auto &info) { return "Case" + std::to_string(info.index); });

TEST(SpecKeyTest, WhatIsNoPattern) {
  for (const char *text :
       {"", "layers[", "layers[]", "layers[x].mlp", "layers[3]mlp", "layers[3].", "layers[5-3]",
        "layers[-1]", "layers[1-]", "a b", "layers[1].mlp]", "layers[99999999999999999999]"}) {
    auto pattern = parseNodePattern(text);
    ASSERT_FALSE(pattern) << text;
    EXPECT_NE(pattern.error().message.find("expected a node such as"), std::string::npos);
  }
}

TEST(SpecKeyTest, NearestNames) {
  std::vector<std::string> names = {"attn.core", "attn.rope", "mlp.down", "embed"};
  std::vector<std::string> near = nearest("attn.coer", names, 2);
  ASSERT_EQ(near.size(), 2u);
  EXPECT_EQ(near[0], "attn.core");
  EXPECT_EQ(near[1], "attn.rope");
  EXPECT_TRUE(nearest("12345", {"embed"}).empty());
}

} // namespace
