#include "runtime/text/Tokenizer.h"
#include "test/unit/TextTestData.h"

#include <chrono>
#include <functional>

namespace gemma {
namespace {

using namespace test;
using nlohmann::json;

void checkGoldenCases(const Tokenizer &tokenizer, const std::string &file, size_t count) {
  std::vector<json> rows = readJsonLines(file);
  ASSERT_EQ(rows.size(), count);
  for (const json &row : rows) {
    Ids ids = row["ids"];
    SCOPED_TRACE(row["text"].dump().substr(0, 200));
    EXPECT_EQ(tokenizer.encode(row["text"].get<std::string>()), ids);
    EXPECT_EQ(tokenizer.decode(ids), row["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, {.skipSpecial = true}), row["decoded_skip"].get<std::string>());
  }
}

TEST(Tokenizer, GoldenCasesKjvMini) {
  checkGoldenCases(kjvTokenizer(), kjvFolder + "/tokenizer-cases.jsonl", 50);
}

TEST(Tokenizer, GoldenCasesGemma3) {
  EXPECT_EQ(gemma3Tokenizer().vocabSize(), 262145);
  checkGoldenCases(gemma3Tokenizer(), gemma3Data + "/cases.jsonl", 400);
}

// The held-out text of kjv-mini, encoded by the library that made the file: real text at length.
TEST(Tokenizer, HeldOutChapters) {
  std::string text = readFile(kjvFolder + "/heldout.txt");
  std::vector<json> rows = readJsonLines(kjvFolder + "/heldout.jsonl");
  size_t start = 0;
  for (const json &row : rows) {
    size_t end = text.find("\n\n", start);
    std::string chapter = text.substr(start, end == text.npos ? end : end + 1 - start);
    start = end == text.npos ? text.size() : end + 2;
    Ids ids = kjvTokenizer().encode(chapter, {.addBos = true});
    ids.resize(std::min<size_t>(ids.size(), 512));
    EXPECT_EQ(ids, row.get<Ids>()) << chapter.substr(0, 80);
  }
  EXPECT_EQ(start, text.size());
}

TEST(Tokenizer, MixedAlphabetsDigitsAndEmoji) {
  const Tokenizer &tokenizer = gemma3Tokenizer();
  EXPECT_EQ(
      tokenizer.encode("Hello world! Café déjà vu — 123 😊"),
      (Ids{9259, 1902, 236888, 62367, 29234, 11042, 2192, 236743, 236770, 236778, 236800, 103453}));
  EXPECT_EQ(tokenizer.encode("🦙"), (Ids{478, 397, 404, 391}));
}

TEST(Tokenizer, NewlineRunsTakeTheLongestAddedToken) {
  const Tokenizer &tokenizer = gemma3Tokenizer();
  EXPECT_EQ(tokenizer.encode("a\n\n\nb"), (Ids{236746, 109, 236763}));
  EXPECT_EQ(tokenizer.encode(std::string(40, '\n')), (Ids{137, 115}));
}

TEST(Tokenizer, BosOnlyOnDemand) {
  EXPECT_EQ(kjvTokenizer().bosId(), 2);
  EXPECT_EQ(kjvTokenizer().encode(""), Ids());
  EXPECT_EQ(kjvTokenizer().encode("", {.addBos = true}), Ids{2});
}

TEST(Tokenizer, ControlTokensInTypedTextAreText) {
  const Tokenizer &tokenizer = kjvTokenizer();
  std::string text = "a<|turn>b<turn|>\n\n<bos>";
  EXPECT_EQ(tokenizer.encode(text).size(), 6u);
  Ids ids = tokenizer.encode(text, {.parseSpecial = false});
  for (int32_t id : ids)
    EXPECT_FALSE(tokenizer.isControl(id)) << id;
  EXPECT_EQ(tokenizer.decode(ids), text);
  // Added tokens that are plain text are still found.
  int32_t newlines = tokenizer.tokenId("\n\n").value_or(-1);
  EXPECT_NE(std::find(ids.begin(), ids.end(), newlines), ids.end());
}

TEST(Tokenizer, ControlTokensAreKnownByNameToo) {
  const Tokenizer &tokenizer = thinkingTokenizer();
  int32_t channel = tokenizer.tokenId("<|channel>").value_or(-1);
  EXPECT_FALSE(tokenizer.isSpecial(channel));
  EXPECT_TRUE(tokenizer.isControl(channel));
  EXPECT_EQ(tokenizer.encode("<|channel>"), Ids{channel});
  EXPECT_GT(tokenizer.encode("<|channel>", {.parseSpecial = false}).size(), 1u);
}

TEST(Tokenizer, IllFormedUtf8BecomesByteTokens) {
  const Tokenizer &tokenizer = gemma3Tokenizer();
  int32_t byte0 = tokenizer.tokenId("<0x00>").value_or(-1);
  // A lone continuation, a lone lead, an overlong slash, a surrogate, above U+10FFFF.
  for (std::string bad :
       {"\x80", "\xE2\x96", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF\xFE"}) {
    Ids expected = tokenizer.encode("a");
    for (char byte : bad)
      expected.push_back(byte0 + static_cast<uint8_t>(byte));
    expected.push_back(tokenizer.encode("b")[0]);
    EXPECT_EQ(tokenizer.encode("a" + bad + "b"), expected);
  }
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xE2\x96"
                                              "b")),
            "a\uFFFDb");
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a\xFF\xFE"
                                              "b")),
            "a\uFFFD\uFFFDb");
}

TEST(Tokenizer, IdsOutsideTheVocabularyStandForNothing) {
  Ids ids = {-1, kjvTokenizer().vocabSize(), 2147483647, kjvTokenizer().tokenId("a").value_or(-1)};
  EXPECT_EQ(kjvTokenizer().decode(ids), "a");
}

TEST(Tokenizer, PiecesByIdAndName) {
  const Tokenizer &tokenizer = kjvTokenizer();
  int32_t newline = tokenizer.tokenId("<0x0A>").value_or(-1);
  EXPECT_TRUE(tokenizer.isByte(newline));
  EXPECT_EQ(tokenizer.pieceBytes(newline), "\n");
  EXPECT_EQ(tokenizer.tokenName(newline), "<0x0A>");
  int32_t the = tokenizer.tokenId("▁the").value_or(-1);
  EXPECT_EQ(tokenizer.pieceBytes(the), " the");
  EXPECT_FALSE(tokenizer.tokenId("no such token"));
}

// A line of 10 MB without a line break: what is quadratic shows.
void checkLongLine(const std::string &line) {
  const Tokenizer &tokenizer = gemma3Tokenizer();
  auto start = std::chrono::steady_clock::now();
  Ids ids = tokenizer.encode(line);
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LT(seconds.count(), 60);
  EXPECT_EQ(tokenizer.decode(ids), line);
}

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr size_t longLine = 1'000'000; // sanitizers cost a factor of ten
#else
constexpr size_t longLine = 10'000'000;
#endif

TEST(Tokenizer, LongLineOfProse) {
  std::string text = readFile(kjvFolder + "/heldout.txt");
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string line;
  while (line.size() < longLine)
    line += text;
  checkLongLine(line);
}

// No place to cut: one word.
TEST(Tokenizer, LongLineOfOneLetter) { checkLongLine(std::string(longLine, 'a')); }

TEST(Tokenizer, LongLineOfSpaces) { checkLongLine(std::string(longLine, ' ')); }

// Every piece is the start of an added token and none is one.
TEST(Tokenizer, LongLineOfAlmostAddedTokens) {
  std::string line;
  while (line.size() < longLine)
    line += "<unused";
  checkLongLine(line);
}

TEST(Tokenizer, MergesAsStringsGiveTheSame) {
  json root = kjvTokenizerJson();
  for (json &merge : root["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  Expected<Tokenizer> tokenizer = Tokenizer::fromJson(root.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  checkGoldenCases(*tokenizer, kjvFolder + "/tokenizer-cases.jsonl", 50);
}

// Merges of byte tokens are legal; words then cannot be cut between characters.
TEST(Tokenizer, MergesOfByteTokens) {
  json root = kjvTokenizerJson();
  json &vocab = root["model"]["vocab"];
  auto size = static_cast<int32_t>(vocab.size());
  vocab["<0xF0><0x9F>"] = size;
  vocab["a<0xF0><0x9F>"] = size + 1;
  json &merges = root["model"]["merges"];
  merges.insert(merges.begin(), {{"<0xF0>", "<0x9F>"}, {"a", "<0xF0><0x9F>"}});
  Expected<Tokenizer> tokenizer = Tokenizer::fromJson(root.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  Ids ids = tokenizer->encode("a🦙");
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[0], size + 1);
}

struct BadFile {
  const char *name;
  std::function<void(json &)> change;
  const char *message; ///< a part of it
};

TEST(Tokenizer, RefusesWhatItDoesNotCompute) {
  const BadFile cases[] = {
      {"unigram", [](json &t) { t["model"]["type"] = "Unigram"; }, "model.type"},
      {"no model", [](json &t) { t.erase("model"); }, "model: expected an object"},
      {"no byte fallback", [](json &t) { t["model"]["byte_fallback"] = false; }, "byte_fallback"},
      {"dropout", [](json &t) { t["model"]["dropout"] = 0.1; }, "model.dropout"},
      {"prefix", [](json &t) { t["model"]["continuing_subword_prefix"] = "##"; },
       "continuing_subword_prefix"},
      {"suffix", [](json &t) { t["model"]["end_of_word_suffix"] = "</w>"; }, "end_of_word_suffix"},
      {"ignore merges", [](json &t) { t["model"]["ignore_merges"] = true; }, "ignore_merges"},
      {"normalizer", [](json &t) { t["normalizer"]["type"] = "NFC"; }, "normalizer.type"},
      {"normalizer absent", [](json &t) { t["normalizer"] = nullptr; }, "normalizer.type"},
      {"regex", [](json &t) { t["normalizer"]["pattern"] = {{"Regex", " "}}; },
       "normalizer.pattern.String"},
      {"pre-tokenizer", [](json &t) { t["pre_tokenizer"] = {{"type", "ByteLevel"}}; },
       "pre_tokenizer.type"},
      {"pre-tokenizer inverted", [](json &t) { t["pre_tokenizer"]["invert"] = true; },
       "pre_tokenizer.invert"},
      {"post-processor", [](json &t) { t["post_processor"]["type"] = "BertProcessing"; },
       "post_processor.type"},
      {"eos appended",
       [](json &t) {
         t["post_processor"]["single"].push_back({{"SpecialToken", {{"id", "<eos>"}}}});
       },
       "post_processor.single[2]"},
      {"decoder", [](json &t) { t["decoder"]["decoders"].push_back({{"type", "Strip"}}); },
       "decoder.decoders"},
      {"decoder step", [](json &t) { t["decoder"]["decoders"][2]["type"] = "Strip"; },
       "decoder.decoders[2].type"},
      {"lstrip", [](json &t) { t["added_tokens"][0]["lstrip"] = true; }, "added_tokens[0].lstrip"},
      {"normalized", [](json &t) { t["added_tokens"][1]["normalized"] = true; },
       "added_tokens[1].normalized"},
  };
  for (const BadFile &bad : cases) {
    SCOPED_TRACE(bad.name);
    json root = kjvTokenizerJson();
    bad.change(root);
    Expected<Tokenizer> tokenizer = Tokenizer::fromJson(root.dump(), "bad.json");
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_EQ(tokenizer.error().kind, ErrorKind::BadInput);
    EXPECT_TRUE(tokenizer.error().message.starts_with("bad.json: "));
    EXPECT_NE(tokenizer.error().message.find(bad.message), std::string::npos)
        << tokenizer.error().message;
  }
}

TEST(Tokenizer, RefusesMalformedTables) {
  const BadFile cases[] = {
      {"vocab array", [](json &t) { t["model"]["vocab"] = json::array(); }, "model.vocab"},
      {"vocab empty", [](json &t) { t["model"]["vocab"] = json::object(); }, "model.vocab"},
      {"id negative", [](json &t) { t["model"]["vocab"]["the"] = -1; }, "expected an id, got -1"},
      {"id huge", [](json &t) { t["model"]["vocab"]["the"] = 4294967296u * 4; }, "an id from 0 to"},
      {"id fraction", [](json &t) { t["model"]["vocab"]["the"] = 16.5; }, "got 16.5"},
      {"id string", [](json &t) { t["model"]["vocab"]["the"] = "5"; }, "got \"5\""},
      {"id of another", [](json &t) { t["model"]["vocab"]["the"] = 2; }, "has two names"},
      {"id missing", [](json &t) { t["model"]["vocab"].erase("z"); }, "z"},
      {"byte missing",
       [](json &t) {
         json id = t["model"]["vocab"]["<0x41>"];
         t["model"]["vocab"].erase("<0x41>");
         t["model"]["vocab"]["<0x4I>"] = id;
       },
       "no byte token <0x41>"},
      {"merges absent", [](json &t) { t["model"].erase("merges"); }, "model.merges"},
      {"merge of three", [](json &t) { t["model"]["merges"][7] = {"a", "b", "c"}; },
       "model.merges[7]"},
      {"merge of numbers", [](json &t) { t["model"]["merges"][7] = {1, 2}; }, "model.merges[7]"},
      {"merge of nothing", [](json &t) { t["model"]["merges"][7] = {"", "a"}; }, "model.merges[7]"},
      {"merge without space", [](json &t) { t["model"]["merges"][7] = "ab"; }, "model.merges[7]"},
      {"merge with two spaces", [](json &t) { t["model"]["merges"][7] = "a b c"; },
       "model.merges[7]"},
      {"merge unknown", [](json &t) { t["model"]["merges"][7] = {"z", "zzzzz"}; },
       "model.merges[7]"},
      {"added not array", [](json &t) { t["added_tokens"] = 5; }, "added_tokens"},
      {"added not object", [](json &t) { t["added_tokens"][3] = 5; }, "added_tokens[3].content"},
      {"added empty", [](json &t) { t["added_tokens"][3]["content"] = ""; },
       "added_tokens[3].content"},
      {"added long", [](json &t) { t["added_tokens"][3]["content"] = std::string(2000, 'x'); },
       "at most 1024 bytes"},
      {"added renamed", [](json &t) { t["added_tokens"][3]["content"] = "<new>"; },
       "has two names"},
      {"added other id", [](json &t) { t["added_tokens"][3]["id"] = 4; }, "added_tokens[3]"},
      {"added far id", [](json &t) { t["added_tokens"][3]["id"] = 1u << 31; }, "an id from 0 to"},
      {"added twice", [](json &t) { t["added_tokens"].push_back(t["added_tokens"][3]); },
       "listed twice"},
      {"special not bool", [](json &t) { t["added_tokens"][3]["special"] = 1; },
       "added_tokens[3].special"},
      {"no bos",
       [](json &t) {
         t["model"]["vocab"].erase("<bos>");
         t["model"]["vocab"]["<BOS>"] = 2;
         t["added_tokens"][2]["content"] = "<BOS>";
         t["post_processor"] = nullptr;
       },
       "no token <bos>"},
  };
  for (const BadFile &bad : cases) {
    SCOPED_TRACE(bad.name);
    json root = kjvTokenizerJson();
    bad.change(root);
    Expected<Tokenizer> tokenizer = Tokenizer::fromJson(root.dump());
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_NE(tokenizer.error().message.find(bad.message), std::string::npos)
        << tokenizer.error().message;
  }
}

TEST(Tokenizer, RefusesFilesThatAreNoTokenizer) {
  std::string good = readFile(kjvFolder + "/tokenizer.json");
  for (std::string text :
       {std::string(), std::string("[]"), std::string("null"), std::string("\xFF\xFE"),
        good.substr(0, good.size() / 2), good + "x", std::string(100'000, '['),
        std::string("{\"model\":{\"type\":\"BPE\"}}")})
    EXPECT_FALSE(Tokenizer::fromJson(text).ok()) << text.substr(0, 40);
  EXPECT_FALSE(Tokenizer::fromFile("/no/such/folder").ok());
}

TEST(Tokenizer, RefusesKeysGivenTwice) {
  std::string good = kjvTokenizerJson().dump();
  auto refused = [&](const std::string &after, const std::string &more, const char *message) {
    std::string text = good;
    size_t place = text.find(after);
    ASSERT_NE(place, text.npos);
    text.insert(place + after.size(), more);
    Expected<Tokenizer> tokenizer = Tokenizer::fromJson(text);
    ASSERT_FALSE(tokenizer.ok());
    EXPECT_NE(tokenizer.error().message.find(message), std::string::npos)
        << tokenizer.error().message;
  };
  refused("\"vocab\":{", "\"the\":0,\"the\":0,", "model.vocab: ");
  refused("\"vocab\":{", "\"<eos>\":1,", "model.vocab: ");
  refused("\"model\":{", "\"vocab\":{},", "duplicate key vocab");
  refused("\"model\":{", "\"merges\":[],", "duplicate key merges");
  refused("{", "\"model\":5,", "duplicate key model");
}

// Keys of these names elsewhere are not the tables.
TEST(Tokenizer, IgnoresUnknownKeysWhateverTheyHold) {
  json root = kjvTokenizerJson();
  root["vocab"] = {{"a", {{"vocab", {{"b", -1}}}}}};
  root["merges"] = {1, 2, {3}};
  root["model"]["extra"] = {{"vocab", {{"b", "c"}}}, {"merges", {1, 2, json::array()}}};
  root["truncation"] = {{"vocab", {{"b", nullptr}}}};
  Expected<Tokenizer> tokenizer = Tokenizer::fromJson(root.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  checkGoldenCases(*tokenizer, kjvFolder + "/tokenizer-cases.jsonl", 50);
}

// Whatever one byte is changed to: refused, or still a tokenizer.
TEST(Tokenizer, SurvivesFlippedBytes) {
  json root = kjvTokenizerJson();
  root["model"]["merges"].erase(root["model"]["merges"].begin() + 20,
                                root["model"]["merges"].end());
  std::string good = root.dump();
  uint32_t state = 1;
  for (int i = 0; i < 300; ++i) {
    std::string text = good;
    for (int flips = 0; flips < 3; ++flips) {
      state = state * 1664525 + 1013904223;
      text[state % text.size()] ^= static_cast<char>(1 << (state >> 29));
    }
    if (Expected<Tokenizer> tokenizer = Tokenizer::fromJson(text))
      EXPECT_FALSE(tokenizer->encode("In the beginning 🦙\n").empty());
  }
}

} // namespace
} // namespace gemma
