// A conversation: a line in, an answer out. Every turn runs on exactly the prompt that the template
// renders for the whole conversation; the cache keeps what that prompt shares with the last one.
#include "runtime/text/Chat.h"
#include "runtime/text/Detokenizer.h"
#include "tools/gemma-run/Modes.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace gemma::run {

namespace {

class Conversation {
public:
  Conversation(const RunOptions &options, Session &session, Tokenizer tokenizer,
               const GenerationOptions &generation)
      : options(options), session(session), tokenizer(std::move(tokenizer)),
        generation(generation) {}

  /// Answers one line.
  Status turn(const std::string &line) {
    if (!sequence) {
      Expected<std::unique_ptr<Sequence>> made = session.context->newSequence();
      if (!made)
        return made.status();
      sequence = std::move(*made);
    }
    history.messages.push_back({ChatRole::User, {line}});
    Status status = answer();
    if (!status)
      forget();
    return status;
  }

private:
  /// Generates the reply to the last message of the history and appends it.
  Status answer() {
    Expected<std::vector<int32_t>> prompt = encodeChat(tokenizer, history);
    if (!prompt)
      return prompt.status();
    // Earlier replies lose their thoughts and outer white space, so the cache may hold more than
    // belongs there. At least one token is left to compute: the reply's logits come from it.
    size_t shared = std::min(sharedPrefix(cached, *prompt), prompt->size() - 1);
    if (!sequence->truncate(int64_t(shared))) {
      // Further back than the sliding layers remember.
      shared = 0;
      if (Status status = sequence->truncate(0); !status)
        return status;
    }
    std::span<const int32_t> fresh = std::span(*prompt).subspan(shared);
    if (int64_t(fresh.size()) > sequence->room())
      return badInput("context full: the conversation has " + std::to_string(prompt->size()) +
                      " tokens, expected at most " +
                      std::to_string(session.context->contextLength()) + "; it starts anew");
    Detokenizer detokenizer(tokenizer, {.skipSpecial = true});
    // The reply as the template reads it: a thought is told by its control tokens, no other counts.
    Detokenizer verbatim(tokenizer, {.skipSpecial = false});
    std::string reply;
    GenerationEvents events;
    events.onToken = [&](int32_t token, std::span<const double>) -> Status {
      std::cout << detokenizer.push(token) << std::flush;
      if (!tokenizer.isControl(token) || token == tokenizer.tokenId("<|channel>") ||
          token == tokenizer.tokenId("<channel|>"))
        reply += verbatim.push(token);
      return {};
    };
    Expected<Generation> result =
        generate(*session.context, *sequence, fresh, generation, events, &interrupted);
    if (!result)
      return result.status();
    std::cout << detokenizer.flush() << std::endl;
    reply += verbatim.flush();
    cached = std::move(*prompt);
    cached.insert(cached.end(), result->tokens.begin(), result->tokens.end());
    cached.resize(size_t(sequence->length())); // the last token may have been chosen only
    history.messages.push_back({ChatRole::Assistant, {reply}});
    if (!options.quiet)
      printSpeed(int64_t(fresh.size()), *result);
    if (result->finish == FinishReason::ContextFull) {
      std::fprintf(stderr, "the context of %lld tokens is full; the conversation starts anew\n",
                   static_cast<long long>(session.context->contextLength()));
      forget();
    }
    return {};
  }

  void forget() {
    sequence.reset();
    cached.clear();
    history.messages.clear();
  }

  const RunOptions &options;
  Session &session;
  Tokenizer tokenizer;
  GenerationOptions generation;
  ChatRequest history;
  std::unique_ptr<Sequence> sequence;
  std::vector<int32_t> cached; ///< the tokens of the sequence
};

} // namespace

Status runChat(const RunOptions &options) {
  Expected<Session> session = Session::open(options);
  if (!session)
    return session.status();
  Expected<Tokenizer> tokenizer = session->requireTokenizer("--chat");
  if (!tokenizer)
    return tokenizer.status();
  if (Expected<ChatFormat> format = ChatFormat::of(*tokenizer); !format)
    return format.status();
  Expected<SamplingOptions> sampling = samplingOptions(options, session->model->artifact());
  if (!sampling)
    return sampling.status();
  GenerationOptions generation;
  generation.maxTokens = options.maxTokens;
  generation.ignoreEos = options.ignoreEos;
  generation.sampling = *sampling;
  Conversation conversation(options, *session, *tokenizer, generation);
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
