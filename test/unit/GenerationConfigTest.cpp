// generation_config.json.
#include "runtime/checkpoint/Checkpoint.h"
#include "test/unit/TestFiles.h"

using namespace gemma;
using namespace gemma::test;

static Expected<std::optional<GenerationDefaults>> readGeneration(const std::string &text) {
  TempFolder folder;
  writeText(folder / "generation_config.json", text);
  return readGenerationDefaults(folder.path());
}

TEST(GenerationConfigTest, ReadsEveryKey) {
  Expected<std::optional<GenerationDefaults>> read = readGeneration(
      R"({"do_sample": true, "temperature": 1, "top_k": 64, "top_p": 0.95, "min_p": 0.01,
          "eos_token_id": [1, 106, 50], "bos_token_id": 2, "pad_token_id": 0, "other": {}})");
  ASSERT_TRUE(read.ok() && *read);
  EXPECT_EQ(**read, (GenerationDefaults{true, 1.0, 64, 0.95, 0.01, {1, 106, 50}, 2}));
}

TEST(GenerationConfigTest, AbsentFileAndKeysAreUnset) {
  TempFolder folder;
  Expected<std::optional<GenerationDefaults>> none = readGenerationDefaults(folder.path());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(*none);
  Expected<std::optional<GenerationDefaults>> empty =
      readGeneration(R"({"eos_token_id": null, "top_k": null})");
  ASSERT_TRUE(empty.ok() && *empty);
  EXPECT_EQ(**empty, GenerationDefaults());
}

TEST(GenerationConfigTest, RefusesByKey) {
  EXPECT_ERROR(readGeneration("[]"), "expected a JSON object");
  EXPECT_ERROR(readGeneration("{"), "not valid JSON");
  EXPECT_ERROR(readGeneration(R"({"do_sample": 1})"), "do_sample: expected true or false, got 1");
  EXPECT_ERROR(readGeneration(R"({"temperature": -1})"), "temperature");
  EXPECT_ERROR(readGeneration(R"({"top_k": 1.5})"), "top_k");
  EXPECT_ERROR(readGeneration(R"({"top_p": 1.5})"), "top_p");
  EXPECT_ERROR(readGeneration(R"({"min_p": "0"})"), "min_p");
  EXPECT_ERROR(readGeneration(R"({"eos_token_id": [1, -1]})"), "eos_token_id");
  EXPECT_ERROR(readGeneration(R"({"eos_token_id": 1.5})"), "eos_token_id");
  EXPECT_ERROR(readGeneration(R"({"bos_token_id": 4294967296})"), "bos_token_id");
}

TEST(GenerationConfigTest, EosFallsBackToTheConfiguration) {
  Expected<Checkpoint> base =
      Checkpoint::open(sourcePath("test/data/models/bad/base")); // no generation_config.json
  ASSERT_TRUE(base.ok());
  EXPECT_EQ(base->eosIds(), (std::vector<int64_t>{1}));
  EXPECT_FALSE(base->generation());
}
