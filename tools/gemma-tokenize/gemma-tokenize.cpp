// gemma-tokenize: text to token ids and back, a line in, a line out.
#include "runtime/support/Json.h"
#include "runtime/text/Tokenizer.h"
#include "tools/driver/Cli.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace gemma;

namespace {

struct Options {
  std::string tokenizer;
  bool decode = false;
  bool jsonl = false;
  bool bos = false;
  bool skipSpecial = false;
};

Error wrongId(const Tokenizer &tokenizer, const std::string &got) {
  return badInput("expected a token id from 0 to " + std::to_string(tokenizer.vocabSize() - 1) +
                  ", got " + got);
}

/// Ids in decimal between white space.
Expected<std::vector<int32_t>> parseIds(std::string_view line, const Tokenizer &tokenizer) {
  constexpr std::string_view space = " \t\r";
  std::vector<int32_t> ids;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(space), line.size()));
    if (line.empty())
      return ids;
    std::string_view word = line.substr(0, line.find_first_of(space));
    int32_t id = -1;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size() || !tokenizer.contains(id))
      return wrongId(tokenizer, quoteForMessage(word));
    ids.push_back(id);
    line.remove_prefix(word.size());
  }
}

/// A JSON array of ids.
Expected<std::vector<int32_t>> parseJsonIds(std::string_view line, const Tokenizer &tokenizer) {
  Expected<nlohmann::json> value = parseJson(line, "JSON");
  if (!value)
    return value.status();
  if (!value->is_array())
    return badInput("expected a JSON array of ids, got " + describe(*value));
  std::vector<int32_t> ids;
  ids.reserve(value->size());
  for (const nlohmann::json &id : *value) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= uint64_t(tokenizer.vocabSize()))
      return wrongId(tokenizer, describe(id));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Expected<std::string> decodeLine(std::string_view line, const Tokenizer &tokenizer,
                                 const Options &options) {
  Expected<std::vector<int32_t>> ids =
      options.jsonl ? parseJsonIds(line, tokenizer) : parseIds(line, tokenizer);
  if (!ids)
    return ids.status();
  std::string text = tokenizer.decode(*ids, {.skipSpecial = options.skipSpecial});
  return options.jsonl ? nlohmann::json(std::move(text)).dump() : text;
}

Expected<std::string> encodeLine(std::string_view line, const Tokenizer &tokenizer,
                                 const Options &options) {
  nlohmann::json value;
  if (options.jsonl) {
    Expected<nlohmann::json> parsed = parseJson(line, "JSON");
    if (!parsed)
      return parsed.status();
    if (!parsed->is_string())
      return badInput("expected a JSON string, got " + describe(*parsed));
    value = std::move(*parsed);
    line = value.get_ref<const std::string &>();
  }
  std::string text;
  for (int32_t id : tokenizer.encode(line, {.addBos = options.bos})) {
    if (!text.empty())
      text += options.jsonl ? ", " : " ";
    text += std::to_string(id);
  }
  return options.jsonl ? "[" + text + "]" : text;
}

Status run(const Options &options) {
  Expected<Tokenizer> tokenizer = Tokenizer::fromFile(options.tokenizer);
  if (!tokenizer)
    return tokenizer.status();
  std::string line;
  for (size_t number = 1; std::getline(std::cin, line); ++number) {
    Expected<std::string> result = options.decode ? decodeLine(line, *tokenizer, options)
                                                  : encodeLine(line, *tokenizer, options);
    if (!result)
      return Error{result.error().kind,
                   "line " + std::to_string(number) + ": " + result.error().message};
    std::cout << *result << '\n';
    // Whoever feeds lines one at a time waits for each answer.
    if (std::cin.rdbuf()->in_avail() <= 0)
      std::cout.flush();
  }
  return {};
}

std::function<Status()> declare(CLI::App &app) {
  auto options = std::make_shared<Options>();
  app.add_option("TOKENIZER", options->tokenizer, "tokenizer.json, or a folder that holds one")
      ->required();
  auto *decode = app.add_flag("--decode", options->decode, "ids to text");
  app.add_flag("--jsonl", options->jsonl,
               "a JSON string a line for text, a JSON array a line for ids: needed for text that "
               "holds line breaks");
  app.add_flag("--bos", options->bos, "put <bos> before each line's ids")->excludes(decode);
  app.add_flag("--skip-special", options->skipSpecial, "leave special tokens out of the text")
      ->needs(decode);
  app.footer("Examples:\n"
             "  echo 'In the beginning' | gemma-tokenize examples/kjv-mini\n"
             "  echo '[107, 2]' | gemma-tokenize examples/kjv-mini --jsonl --decode\n"
             "Names of special tokens in the text, such as <bos>, become these tokens.\n"
             "Exit codes: 0 ok, 1 bad input (the message names the line), 2 usage, 3 internal.");
  return [options] { return run(*options); };
}

} // namespace

int main(int argc, char **argv) {
  std::ios::sync_with_stdio(false);
  return driver::runTool("gemma-tokenize",
                         "Turns text into token ids, or back: a line of standard input in, a line "
                         "out.",
                         declare, argc, argv);
}
