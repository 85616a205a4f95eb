// How well a model predicts a text: exp of the mean negative log-likelihood of its tokens.
#include "runtime/support/File.h"
#include "runtime/support/Json.h"
#include "tools/gemma-run/Modes.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <sstream>

namespace gemma::run {

namespace {

constexpr uint64_t maxFileBytes = uint64_t(1) << 30;

/// One sequence of the file.
struct Line {
  size_t number = 0;
  std::vector<int32_t> tokens;
};

std::vector<int32_t> encodeText(const Tokenizer &tokenizer, std::string_view text) {
  // A measured text is no prompt: names of control tokens in it are text.
  return tokenizer.encode(text, {.addBos = true, .parseSpecial = false});
}

/// A JSON string, or an array of ids.
Expected<std::vector<int32_t>> readJsonLine(const std::string &text, const std::string &where,
                                            const Session &session) {
  Expected<nlohmann::json> value = parseJson(text, where);
  if (!value)
    return value.status();
  if (value->is_string()) {
    Expected<Tokenizer> tokenizer = session.requireTokenizer("a line of text");
    if (!tokenizer)
      return tokenizer.status();
    return encodeText(*tokenizer, value->get_ref<const std::string &>());
  }
  if (!value->is_array())
    return badInput(where + ": expected a string or an array of ids, got " + describe(*value));
  std::vector<int32_t> ids;
  for (const nlohmann::json &id : *value) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      return badInput(where + ": expected a token id, got " + describe(id));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Expected<std::vector<Line>> readLines(const std::string &file, const Session &session) {
  Expected<std::string> content = readWholeFile(file, maxFileBytes);
  if (!content)
    return content.status();
  std::vector<Line> lines;
  if (!file.ends_with(".jsonl")) {
    Expected<Tokenizer> tokenizer = session.requireTokenizer("--perplexity of a text");
    if (!tokenizer)
      return tokenizer.status();
    lines.push_back({1, encodeText(*tokenizer, *content)});
    return lines;
  }
  std::istringstream stream(std::move(*content));
  std::string text;
  for (size_t number = 1; std::getline(stream, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos)
      continue;
    Expected<std::vector<int32_t>> tokens =
        readJsonLine(text, file + ": line " + std::to_string(number), session);
    if (!tokens)
      return tokens.status();
    lines.push_back({number, std::move(*tokens)});
  }
  if (lines.empty())
    return badInput(file + ": expected at least one line, got none");
  return lines;
}

/// Sum of -log p(token | those before) over all but the first.
Expected<double> negativeLogLikelihood(Context &context, std::span<const int32_t> tokens) {
  Expected<std::unique_ptr<Sequence>> sequence = context.newSequence();
  if (!sequence)
    return sequence.status();
  double sum = 0;
  std::vector<double> logits(size_t(context.model().program().config.vocab));
  Status status = context.extend(**sequence, tokens, LogitsWanted::All,
                                 [&](int64_t first, const StepResult &result) -> Status {
                                   std::optional<OutputView> view = context.output("logits");
                                   if (!view || view->rowElements != int64_t(logits.size()))
                                     return badInput("the artifact's program gives no logits");
                                   for (int64_t row = 0; row < result.logitRows; ++row) {
                                     size_t next = size_t(first + row) + 1;
                                     if (next >= tokens.size())
                                       break;
                                     view->copyRow(row, logits);
                                     sum += logSumExp(logits) - logits[size_t(tokens[next])];
                                   }
                                   return interrupted ? badInput("interrupted") : Status();
                                 });
  if (!status)
    return status;
  return sum;
}

nlohmann::ordered_json figures(double nll, int64_t tokens) {
  nlohmann::ordered_json out;
  out["nll"] = nll;
  out["tokens"] = tokens;
  out["perplexity"] = std::exp(nll / double(tokens));
  return out;
}

} // namespace

Status runPerplexity(const RunOptions &options) {
  Expected<Session> session = Session::open(options);
  if (!session)
    return session.status();
  Expected<std::vector<Line>> lines = readLines(*options.perplexity, *session);
  if (!lines)
    return lines.status();
  double total = 0;
  int64_t count = 0;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (Line &line : *lines) {
    std::string where = *options.perplexity + ": line " + std::to_string(line.number);
    int64_t most = session->context->contextLength();
    if (int64_t(line.tokens.size()) > most) {
      std::fprintf(stderr, "%s: cut from %zu tokens to the context of %lld\n", where.c_str(),
                   line.tokens.size(), static_cast<long long>(most));
      line.tokens.resize(size_t(most));
    }
    if (line.tokens.size() < 2)
      return badInput(where + ": expected at least two tokens, of which the first is given, got " +
                      std::to_string(line.tokens.size()));
    Expected<double> nll = negativeLogLikelihood(*session->context, line.tokens);
    if (!nll)
      return Error{nll.error().kind, where + ": " + nll.error().message};
    int64_t predicted = int64_t(line.tokens.size()) - 1;
    total += *nll;
    count += predicted;
    if (options.json) {
      list.push_back(figures(*nll, predicted));
      list.back()["line"] = line.number;
    } else if (lines->size() > 1) {
      std::printf("line %zu: nll %.12g, tokens %lld, perplexity %.12g\n", line.number, *nll,
                  static_cast<long long>(predicted), std::exp(*nll / double(predicted)));
      std::fflush(stdout);
    }
  }
  if (options.json) {
    nlohmann::ordered_json out = figures(total, count);
    out["lines"] = std::move(list);
    std::cout << out.dump() << "\n";
  } else {
    std::printf("total: nll %.12g, tokens %lld, perplexity %.12g\n", total,
                static_cast<long long>(count), std::exp(total / double(count)));
    std::fflush(stdout);
  }
  return {};
}

} // namespace gemma::run
