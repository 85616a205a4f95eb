#include "runtime/text/Detokenizer.h"
#include "runtime/text/Utf8.h"
#include "test/unit/TextTestData.h"

#include <random>

namespace gemma {
namespace {

using namespace test;

void expectWholeCharacters(std::string_view text) {
  while (!text.empty()) {
    utf8::Character character = utf8::firstCharacter(text);
    ASSERT_EQ(character.form, utf8::Form::Valid);
    text.remove_prefix(character.length);
  }
}

/// Streams `ids`; checks that no part ends inside a character.
std::string stream(const Tokenizer &tokenizer, const Ids &ids, DecodeOptions options = {}) {
  Detokenizer detokenizer(tokenizer, options);
  std::string text;
  for (int32_t id : ids) {
    std::string part = detokenizer.push(id);
    expectWholeCharacters(part);
    text += part;
  }
  return text + detokenizer.flush();
}

TEST(Detokenizer, StreamingGivesTheGoldenTexts) {
  for (const nlohmann::json &row : readJsonLines(gemma3Data + "/cases.jsonl")) {
    Ids ids = row["ids"];
    EXPECT_EQ(stream(gemma3Tokenizer(), ids), row["decoded"].get<std::string>());
    EXPECT_EQ(stream(gemma3Tokenizer(), ids, {.skipSpecial = true}),
              row["decoded_skip"].get<std::string>());
  }
}

TEST(Detokenizer, AnEmojiOfFourByteTokensIsOneDelta) {
  Detokenizer detokenizer(gemma3Tokenizer());
  EXPECT_EQ(detokenizer.push(478), "");
  EXPECT_EQ(detokenizer.push(397), "");
  EXPECT_EQ(detokenizer.push(404), "");
  EXPECT_EQ(detokenizer.push(391), "🦙");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, ATruncatedTailIsOneReplacementCharacter) {
  Detokenizer detokenizer(gemma3Tokenizer());
  for (int32_t id : {478, 397, 404})
    EXPECT_EQ(detokenizer.push(id), "");
  EXPECT_EQ(detokenizer.flush(), "\uFFFD");
  EXPECT_EQ(detokenizer.flush(), "");
}

TEST(Detokenizer, ATokenAfterHalfACharacterEndsIt) {
  Detokenizer detokenizer(gemma3Tokenizer());
  EXPECT_EQ(detokenizer.push(478), "");
  EXPECT_EQ(detokenizer.push(9259), "\uFFFDHello");
}

TEST(Detokenizer, ASkippedTokenDoesNotPartACharacter) {
  Ids ids = {478, 397, 2, 404, 391};
  EXPECT_EQ(stream(gemma3Tokenizer(), ids, {.skipSpecial = true}), "🦙");
  EXPECT_EQ(stream(gemma3Tokenizer(), ids), "\uFFFD<bos>\uFFFD\uFFFD");
}

// Maximal subparts, Unicode 16 table 3-8.
TEST(Detokenizer, IllFormedBytesAreReplacedByMaximalSubparts) {
  int32_t byte0 = gemma3Tokenizer().tokenId("<0x00>").value_or(-1);
  Ids ids;
  for (uint8_t byte :
       {0x61, 0xF1, 0x80, 0x80, 0xE1, 0x80, 0xC2, 0x62, 0x80, 0x63, 0x80, 0xBF, 0x64})
    ids.push_back(byte0 + byte);
  EXPECT_EQ(stream(gemma3Tokenizer(), ids), "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
}

TEST(Detokenizer, StreamingEqualsTheWholeForAnyIds) {
  const Tokenizer &tokenizer = gemma3Tokenizer();
  int32_t byte0 = tokenizer.tokenId("<0x00>").value_or(-1);
  std::mt19937 random(7); // NOLINT(bugprone-random-generator-seed): the same ids each time
  for (int round = 0; round < 500; ++round) {
    Ids ids;
    for (int i = 0; i < 40; ++i)
      ids.push_back(random() % 3 ? byte0 + static_cast<int32_t>(random() % 256)
                                 : static_cast<int32_t>(random() % 300'000) - 100);
    for (bool skip : {false, true}) {
      std::string whole = tokenizer.decode(ids, {.skipSpecial = skip});
      EXPECT_EQ(stream(tokenizer, ids, {.skipSpecial = skip}), whole);
      expectWholeCharacters(whole);
    }
  }
}

} // namespace
} // namespace gemma
