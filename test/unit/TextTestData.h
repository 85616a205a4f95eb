// Tokenizers and golden cases for the tests of runtime/text.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace gemma::test {

inline const std::string kjvFolder = GEMMA_SOURCE_DIR "/examples/kjv-mini";
inline const std::string gemma3Data = GEMMA_SOURCE_DIR "/test/data/tokenizers/gemma3";

inline std::string readFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline std::vector<nlohmann::json> readJsonLines(const std::string &path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream) << path;
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(stream, line);)
    rows.push_back(nlohmann::json::parse(line));
  return rows;
}

inline Tokenizer load(const std::string &path) {
  Expected<Tokenizer> tokenizer = Tokenizer::fromFile(path);
  if (!tokenizer)
    throw std::runtime_error(tokenizer.error().message);
  return *tokenizer;
}

inline const Tokenizer &kjvTokenizer() {
  static const Tokenizer tokenizer = load(kjvFolder);
  return tokenizer;
}

/// kjv-mini's tokenizer.json, to be changed by a test.
inline nlohmann::json kjvTokenizerJson() {
  static const nlohmann::json root = nlohmann::json::parse(readFile(kjvFolder + "/tokenizer.json"));
  return root;
}

/// kjv-mini's tokenizer with Gemma 4's two thought tokens in the place of two unused ones.
inline const Tokenizer &thinkingTokenizer() {
  static const Tokenizer tokenizer = [] {
    nlohmann::json root = kjvTokenizerJson();
    auto rename = [&](const char *from, const char *to) {
      nlohmann::json &vocab = root["model"]["vocab"];
      nlohmann::json id = vocab.at(from);
      vocab.erase(from);
      vocab[to] = id;
      for (nlohmann::json &token : root["added_tokens"])
        if (token["content"] == from)
          token["content"] = to; // stays "special": false, as such tokens may be
    };
    rename("<unused0>", "<|channel>");
    rename("<unused1>", "<channel|>");
    Expected<Tokenizer> made = Tokenizer::fromJson(root.dump());
    if (!made)
      throw std::runtime_error(made.error().message);
    return *made;
  }();
  return tokenizer;
}

#ifdef GEMMA3_TOKENIZER
/// 262,144 entries.
inline const Tokenizer &gemma3Tokenizer() {
  static const Tokenizer tokenizer = load(GEMMA3_TOKENIZER);
  return tokenizer;
}
#endif

using Ids = std::vector<int32_t>;

} // namespace gemma::test
