// A prompt goes in, tokens come out.
#pragma once

#include "runtime/engine/Context.h"
#include "runtime/engine/Sampler.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace gemma {

struct GenerationOptions {
  int64_t maxTokens = 256;
  bool ignoreEos = false;
  bool logprobs = false;    ///< compute them
  bool tokenLogits = false; ///< give onToken the logits
  bool allLogits = false;   ///< give onPromptLogits every position's, not just the last one's
  SamplingOptions sampling;
};

enum class FinishReason : uint8_t {
  Stop,        ///< an end token came
  Length,      ///< as many tokens as allowed
  ContextFull, ///< no room for another
  Interrupted,
};

/// "stop", "length", "context", "interrupted".
const char *finishName(FinishReason reason);

struct Generation {
  std::vector<int32_t> tokens;  ///< without the end token
  std::vector<double> logprobs; ///< of the tokens, if wanted
  FinishReason finish = FinishReason::Length;
  int32_t endToken = -1; ///< the end token that stopped it
  double prefillSeconds = 0;
  double decodeSeconds = 0;
  int64_t decodeSteps = 0;
};

/// What a caller may watch.
struct GenerationEvents {
  /// The logits of a prompt's token (of the last one only, unless allLogits).
  std::function<Status(int64_t position, const OutputView &logits, int64_t row)> onPromptLogits;
  /// A step with this many tokens of the prompt is about to run.
  std::function<void(int64_t tokens)> onStep;
  /// The whole prompt has been computed.
  std::function<void()> onPromptEnd;
  /// A token was chosen; with tokenLogits or logprobs from these logits, [vocab], else none are
  /// given: where the program gives enough of the largest ones, no others reach the host.
  std::function<Status(int32_t token, std::span<const double> logits)> onToken;
};

/// Appends `prompt` to the sequence and generates. The last token, if it is no end token, is chosen
/// but not appended (generating again begins with it). `stop` ends it early, between steps; may be
/// null. Refused: an empty prompt, an id outside the vocabulary, a prompt longer than the room.
Expected<Generation> generate(Context &context, Sequence &sequence, std::span<const int32_t> prompt,
                              const GenerationOptions &options, const GenerationEvents &events,
                              const std::atomic<bool> *stop);

} // namespace gemma
