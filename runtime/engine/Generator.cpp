#include "runtime/engine/Generator.h"

#include <algorithm>
#include <chrono>

namespace gemma {

const char *finishName(FinishReason reason) {
  switch (reason) {
  case FinishReason::Stop:
    return "stop";
  case FinishReason::Length:
    return "length";
  case FinishReason::ContextFull:
    return "context";
  case FinishReason::Interrupted:
    return "interrupted";
  }
  return "?";
}

namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

class Run {
public:
  Run(Context &context, Sequence &sequence, const GenerationOptions &options,
      const GenerationEvents &events, const std::atomic<bool> *stop)
      : context(context), sequence(sequence), options(options), events(events), stop(stop),
        sampler(options.sampling) {
    const Program &program = context.model().program();
    bool allLogits =
        options.allLogits || options.logprobs || options.tokenLogits || events.onPromptLogits;
    if (!allLogits && sampler.enough(program.topCount())) {
      wanted = OutputsWanted::Top;
      topValues.resize(size_t(program.topCount()));
      topIds.resize(topValues.size());
    } else {
      logits.resize(size_t(program.config.vocab));
    }
  }

  Expected<Generation> run(std::span<const int32_t> prompt) {
    auto start = Clock::now();
    if (Status status = prefill(prompt); !status)
      return status;
    result.prefillSeconds = secondsSince(start);
    start = Clock::now();
    if (!interrupted())
      if (Status status = decode(); !status)
        return status;
    result.decodeSeconds = secondsSince(start);
    if (interrupted())
      result.finish = FinishReason::Interrupted;
    return std::move(result);
  }

private:
  bool interrupted() const { return stop && stop->load(std::memory_order_relaxed); }

  /// What the next token is chosen from: row `row` of the last step's outputs.
  Status readRow(int64_t row) {
    if (wanted == OutputsWanted::Top) {
      std::optional<OutputView> values = context.output(topValuesName),
                                ids = context.output(topIdsName);
      if (!values || !ids)
        return internalError("a step did not bring the largest logits");
      values->copyRow(row, topValues);
      ids->copyRow(row, topIds);
      return {};
    }
    std::optional<OutputView> view = context.output("logits");
    if (!view || view->rowElements != int64_t(logits.size()))
      return badInput("the artifact's program gives no logits");
    view->copyRow(row, logits);
    return {};
  }

  int32_t chooseToken() {
    return wanted == OutputsWanted::Top ? sampler.sample(topValues, topIds)
                                        : sampler.sample(logits);
  }

  Status prefill(std::span<const int32_t> prompt) {
    if (int64_t(prompt.size()) > sequence.room())
      return badInput("context full: expected at most " + std::to_string(sequence.room()) +
                      " more tokens, got " + std::to_string(prompt.size()));
    const ProgramLimits &limits = context.model().program().limits;
    int64_t chunk = limits.maxChunk;
    if (options.allLogits)
      chunk = std::min(chunk, limits.maxLogitRows);
    if (prompt.empty() || chunk < 1)
      // extend() says why.
      return context.extend(sequence, prompt, LogitsWanted::All, {});
    int64_t count = int64_t(prompt.size());
    // Chunk by chunk, to be interruptible; ids are checked first, so that nothing is half done.
    int64_t vocab = context.model().program().config.vocab;
    for (int32_t token : prompt)
      if (token < 0 || token >= vocab)
        return badInput("token id: expected 0 to " + std::to_string(vocab - 1) + ", got " +
                        std::to_string(token));
    for (int64_t begin = 0; begin < count && !interrupted();) {
      int64_t length = std::min(chunk, count - begin);
      bool final = begin + length == count;
      StepRow row{&sequence, prompt.subspan(size_t(begin), size_t(length)),
                  options.allLogits ? LogitsWanted::All
                  : final           ? LogitsWanted::Last
                                    : LogitsWanted::None};
      if (events.onStep)
        events.onStep(length);
      Expected<StepResult> step = context.step({&row, 1}, wanted);
      if (!step)
        return step.status();
      if (Status status = report(*step, begin + length); !status)
        return status;
      begin += length;
    }
    if (events.onPromptEnd)
      events.onPromptEnd();
    return {};
  }

  Status report(const StepResult &step, int64_t end) {
    if (step.logitRows == 0)
      return {};
    if (std::optional<OutputView> view = context.output("logits"); view && events.onPromptLogits)
      for (int64_t row = 0; row < step.logitRows; ++row)
        if (Status status = events.onPromptLogits(end - step.logitRows + row, *view, row); !status)
          return status;
    return readRow(step.logitRows - 1);
  }

  bool isEnd(int32_t token) const {
    const std::vector<int64_t> &ends = context.model().artifact().eosIds;
    return !options.ignoreEos && std::find(ends.begin(), ends.end(), token) != ends.end();
  }

  Status decode() {
    result.finish = FinishReason::Length;
    while (int64_t(result.tokens.size()) < options.maxTokens) {
      int32_t token = chooseToken();
      if (isEnd(token)) {
        result.finish = FinishReason::Stop;
        result.endToken = token;
        return {};
      }
      result.tokens.push_back(token);
      if (options.logprobs)
        result.logprobs.push_back(logits[size_t(token)] - logSumExp(logits));
      if (events.onToken)
        if (Status status = events.onToken(token, logits); !status)
          return status;
      if (int64_t(result.tokens.size()) == options.maxTokens || interrupted())
        return {};
      if (sequence.room() == 0) {
        result.finish = FinishReason::ContextFull;
        return {};
      }
      if (Status status = append(token); !status)
        return status;
    }
    return {};
  }

  Status append(int32_t token) {
    StepRow row{&sequence, {&token, 1}, LogitsWanted::Last};
    Expected<StepResult> step = context.step({&row, 1}, wanted);
    if (!step)
      return step.status();
    ++result.decodeSteps;
    return readRow(0);
  }

  Context &context;
  Sequence &sequence;
  const GenerationOptions &options;
  const GenerationEvents &events;
  const std::atomic<bool> *stop;
  Sampler sampler;
  OutputsWanted wanted = OutputsWanted::Logits;
  std::vector<double> logits;    ///< of the next token, if they are wanted
  std::vector<double> topValues; ///< else the largest
  std::vector<int32_t> topIds;
  Generation result;
};

} // namespace

Expected<Generation> generate(Context &context, Sequence &sequence, std::span<const int32_t> prompt,
                              const GenerationOptions &options, const GenerationEvents &events,
                              const std::atomic<bool> *stop) {
  return Run(context, sequence, options, events, stop).run(prompt);
}

} // namespace gemma
