// A conversation: a line in, an answer out. The cache keeps what was said.
#include "runtime/text/Chat.h"
#include "runtime/text/Detokenizer.h"
#include "tools/gemma-run/Modes.h"

#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace gemma::run {

namespace {

class Conversation {
public:
  Conversation(const RunOptions &options, Session &session, Tokenizer tokenizer, ChatFormat format,
               const GenerationOptions &generation)
      : options(options), session(session), tokenizer(std::move(tokenizer)), format(format),
        generation(generation) {}

  /// Answers one line.
  Status turn(const std::string &line) {
    if (!sequence) {
      Expected<std::unique_ptr<Sequence>> made = session.context->newSequence();
      if (!made)
        return made.status();
      sequence = std::move(*made);
    }
    ChatRequest request;
    request.messages = {{ChatRole::User, {line}}};
    bool opening = sequence->length() == 0;
    Expected<std::vector<int32_t>> turnTokens =
        opening ? encodeChat(tokenizer, request)
                : encodePieces(tokenizer, renderNextTurn(request, false, format));
    if (!turnTokens)
      return turnTokens.status();
    // The last reply may have been cut off after a token that is not in the cache yet.
    std::vector<int32_t> tokens = pending;
    tokens.insert(tokens.end(), turnTokens->begin(), turnTokens->end());
    if (int64_t(tokens.size()) > sequence->room()) {
      int64_t had = sequence->length();
      forget();
      return badInput("context full: " + std::to_string(had) + " tokens and " +
                      std::to_string(tokens.size()) + " new ones, expected at most " +
                      std::to_string(session.context->contextLength()) +
                      "; the conversation starts anew");
    }
    Detokenizer detokenizer(tokenizer, {.skipSpecial = true});
    GenerationEvents events;
    events.onToken = [&](int32_t token, std::span<const double>) -> Status {
      std::cout << detokenizer.push(token) << std::flush;
      return {};
    };
    Expected<Generation> result =
        generate(*session.context, *sequence, tokens, generation, events, &interrupted);
    if (!result)
      return result.status();
    std::cout << detokenizer.flush() << std::endl;
    pending.clear();
    if (result->finish != FinishReason::Stop && !result->tokens.empty())
      pending.push_back(result->tokens.back());
    if (!options.quiet)
      printSpeed(int64_t(tokens.size()), *result);
    if (result->finish == FinishReason::ContextFull) {
      std::fprintf(stderr, "the context of %lld tokens is full; the conversation starts anew\n",
                   static_cast<long long>(session.context->contextLength()));
      forget();
    }
    return {};
  }

private:
  void forget() {
    sequence.reset();
    pending.clear();
  }

  const RunOptions &options;
  Session &session;
  Tokenizer tokenizer;
  ChatFormat format;
  GenerationOptions generation;
  std::unique_ptr<Sequence> sequence;
  std::vector<int32_t> pending;
};

} // namespace

Status runChat(const RunOptions &options) {
  Expected<Session> session = Session::open(options);
  if (!session)
    return session.status();
  Expected<Tokenizer> tokenizer = session->requireTokenizer("--chat");
  if (!tokenizer)
    return tokenizer.status();
  Expected<ChatFormat> format = ChatFormat::of(*tokenizer);
  if (!format)
    return format.status();
  Expected<SamplingOptions> sampling = samplingOptions(options, session->model->artifact());
  if (!sampling)
    return sampling.status();
  GenerationOptions generation;
  generation.maxTokens = options.maxTokens;
  generation.ignoreEos = options.ignoreEos;
  generation.sampling = *sampling;
  Conversation conversation(options, *session, *tokenizer, *format, generation);
  bool terminal = ::isatty(STDIN_FILENO);
  std::string line;
  while (!interrupted) {
    if (terminal)
      std::fprintf(stderr, "> ");
    if (!std::getline(std::cin, line))
      break;
    if (line.empty())
      continue;
    // A refused turn ends a script, but not a conversation with a person.
    if (Status status = conversation.turn(line); !status) {
      if (!terminal)
        return status;
      std::fprintf(stderr, "gemma-run: error: %s\n", status.error().message.c_str());
    }
  }
  return {};
}

} // namespace gemma::run
