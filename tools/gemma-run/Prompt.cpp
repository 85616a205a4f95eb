// One prompt, one answer.
#include "runtime/support/File.h"
#include "runtime/text/Chat.h"
#include "runtime/text/Detokenizer.h"
#include "tools/gemma-run/Modes.h"
#include "tools/gemma-run/NodeLog.h"
#include "tools/gemma-run/Profile.h"
#include "tools/gemma-run/TensorLog.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <iterator>

namespace gemma::run {

static constexpr uint64_t maxPromptBytes = uint64_t(1) << 30;

void printSpeed(int64_t promptTokens, const Generation &generation) {
  auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? double(tokens) / seconds : 0;
  };
  std::fprintf(stderr, "prefill: %lld tokens in %.2f s, %.1f tokens/s",
               static_cast<long long>(promptTokens), generation.prefillSeconds,
               rate(promptTokens, generation.prefillSeconds));
  if (generation.decodeSteps > 0)
    std::fprintf(stderr, "; decode: %lld tokens in %.2f s, %.1f tokens/s",
                 static_cast<long long>(generation.decodeSteps), generation.decodeSeconds,
                 rate(generation.decodeSteps, generation.decodeSeconds));
  std::fprintf(stderr, "\n");
}

/// The prompt's ids, from whatever source the command line names.
static Expected<std::vector<int32_t>> promptTokens(const RunOptions &options,
                                                   const Session &session) {
  if (options.tokens)
    return parseTokenList(*options.tokens);
  std::string text;
  if (options.prompt) {
    text = *options.prompt;
  } else if (options.promptFile) {
    Expected<std::string> read = readWholeFile(*options.promptFile, maxPromptBytes);
    if (!read)
      return read.status();
    text = std::move(*read);
  } else {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
  }
  if (text.empty())
    return badInput("empty prompt: expected some text, got none");
  Expected<Tokenizer> tokenizer = session.requireTokenizer("a prompt in text");
  if (!tokenizer)
    return tokenizer.status();
  return encodeCompletion(*tokenizer, text);
}

namespace {

/// Prints what is generated as it comes, and keeps what the options ask for.
class PromptRun {
public:
  PromptRun(const RunOptions &options, Session &session) : options(options), session(session) {
    if (session.tokenizer)
      detokenizer.emplace(*session.tokenizer, DecodeOptions{.skipSpecial = true});
  }

  Status run() {
    Expected<std::vector<int32_t>> prompt = promptTokens(options, session);
    if (!prompt)
      return prompt.status();
    Expected<SamplingOptions> sampling = samplingOptions(options, session.model->artifact());
    if (!sampling)
      return sampling.status();
    GenerationOptions generation;
    generation.maxTokens = options.maxTokens;
    generation.ignoreEos = options.ignoreEos;
    generation.logprobs = options.json;
    generation.tokenLogits = !options.logitsOut.empty();
    generation.allLogits = !options.logitsOut.empty() || !options.nodesOut.empty();
    generation.sampling = *sampling;
    Expected<std::unique_ptr<Sequence>> sequence = session.context->newSequence();
    if (!sequence)
      return sequence.status();
    if (!options.nodesOut.empty())
      nodes.emplace(*session.context, int64_t(prompt->size()));
    if (options.profile || !options.profileOut.empty())
      profile.emplace(*session.context, **sequence);
    Expected<Generation> result =
        generate(*session.context, **sequence, *prompt, generation, events(), &interrupted);
    if (!result)
      return result.status();
    finishText();
    if (Status status = finishProfile(); !status)
      return status;
    if (!options.quiet)
      printSpeed(int64_t(prompt->size()), *result);
    if (result->finish == FinishReason::ContextFull && !options.quiet)
      std::fprintf(stderr, "the context of %lld tokens is full\n",
                   static_cast<long long>(session.context->contextLength()));
    if (options.json)
      printJson(*prompt, *result, generation.sampling);
    profile.reset(); // which watches the sequence
    return writeTensors();
  }

private:
  /// Ends the observation and reports it, but for JSON.
  Status finishProfile() {
    if (!profile)
      return {};
    profile->stop();
    if (!options.profileOut.empty())
      if (Status status = profile->writeTrace(options.profileOut); !status)
        return status;
    if (!options.profile)
      return {};
    if (Status status = profile->measureLimits(); !status)
      return status;
    if (!options.json)
      std::fprintf(stderr, "%s", profile->text().c_str());
    return {};
  }

  GenerationEvents events() {
    GenerationEvents events;
    if (!options.logitsOut.empty())
      events.onPromptLogits = [this](int64_t, const OutputView &view, int64_t row) -> Status {
        logits.append("logits", view, row, {view.rowElements});
        return {};
      };
    if (nodes) {
      events.onStep = [this](int64_t tokens) { nodes->beginStep(tokens); };
      events.onPromptEnd = [this] { session.context->observeLaunches(nullptr); };
    }
    events.onToken = [this](int32_t token, std::span<const double>) { return onToken(token); };
    return events;
  }

  Status onToken(int32_t token) {
    if (!options.logitsOut.empty()) {
      // The logits it was chosen from are the last step's, whose last row they are.
      std::optional<OutputView> view = session.context->output("logits");
      if (!view)
        return internalError("a token without logits");
      logits.append("generated.logits", *view, view->rows - 1, {view->rowElements});
    }
    if (detokenizer)
      show(detokenizer->push(token));
    else if (!options.json)
      std::cout << (first ? "" : " ") << token << std::flush;
    first = false;
    return {};
  }

  void show(const std::string &part) {
    text += part;
    if (!options.json)
      std::cout << part << std::flush;
  }

  void finishText() {
    if (detokenizer)
      show(detokenizer->flush());
    if (!options.json && !first)
      std::cout << "\n" << std::flush; // before what goes to stderr
  }

  void printJson(std::span<const int32_t> prompt, const Generation &result,
                 const SamplingOptions &sampling) const {
    nlohmann::ordered_json out;
    out["prompt_tokens"] = prompt.size();
    out["tokens"] = result.tokens;
    if (detokenizer)
      out["text"] = text;
    out["logprobs"] = result.logprobs;
    out["finish"] = finishName(result.finish);
    if (!sampling.greedy())
      out["seed"] = sampling.seed;
    out["timings"] = {{"load_seconds", session.loadSeconds},
                      {"prefill_seconds", result.prefillSeconds},
                      {"decode_seconds", result.decodeSeconds},
                      {"decode_steps", result.decodeSteps}};
    out["memory"] = {{"planned_bytes", session.context->plan().total()}};
    if (std::optional<uint64_t> resident = residentMemory())
      out["memory"]["resident_bytes"] = *resident;
    if (profile && options.profile)
      out["profile"] = profile->json();
    std::cout << out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  }

  Status writeTensors() const {
    if (!options.logitsOut.empty())
      if (Status status = logits.write(options.logitsOut); !status)
        return status;
    if (nodes)
      return nodes->tensors().write(options.nodesOut);
    return {};
  }

  const RunOptions &options;
  Session &session;
  std::optional<Detokenizer> detokenizer;
  std::string text;
  bool first = true;
  TensorLog logits;
  std::optional<NodeLog> nodes;
  std::optional<Profile> profile;
};

} // namespace

Status runPrompt(const RunOptions &options) {
  for (const std::string &file : {options.logitsOut, options.nodesOut, options.profileOut})
    if (!file.empty()) {
      if (Status status = checkWritable(file); !status)
        return status;
      std::error_code error;
      if (std::filesystem::equivalent(file, options.artifact, error))
        return badInput(file + ": expected another file than the artifact");
    }
  Expected<Session> session = Session::open(options);
  if (!session)
    return session.status();
  if (!options.nodesOut.empty() && session->model->program().fused)
    return badInput("--nodes-out: the artifact was compiled with fused nodes; compile it with "
                    "--fusion off");
  if ((options.profile || !options.profileOut.empty()) &&
      session->model->program().family != DeviceFamily::Host)
    return usage("--profile: times launches of the host; the artifact was compiled for CUDA "
                 "devices, whose own profilers see more");
  return PromptRun(options, *session).run();
}

} // namespace gemma::run
