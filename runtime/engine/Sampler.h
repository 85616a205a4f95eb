// From logits to the next token.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gemma {

struct SamplingOptions {
  double temperature = 0; ///< logits are divided by it; 0: the most likely token, always
  int64_t topK = 0;       ///< keep the k most likely; 0: all
  double topP = 1; ///< then the most likely that together have this probability; at least one
  double minP = 0; ///< then those with at least this share of the largest probability
  uint64_t seed = 0;

  bool greedy() const { return temperature == 0; }
};

/// The index of the largest logit, the smallest index of equal ones. NaN is smaller than anything:
/// the result is an index in any case.
int32_t argmax(std::span<const double> logits);

/// log of the softmax's denominator: log Σ exp(logit), NaN left out.
double logSumExp(std::span<const double> logits);

/// Draws tokens; the same seed and logits give the same tokens, on any machine.
class Sampler {
public:
  explicit Sampler(const SamplingOptions &options) : options(options) {}

  /// A valid index into `logits` (at least one), whatever they hold.
  int32_t sample(std::span<const double> logits);

  /// Whether `count` of the most likely are enough to draw from.
  bool enough(int64_t count) const {
    return options.greedy() ? count > 0 : options.topK > 0 && options.topK <= count;
  }
  /// The same token from the largest logits alone, the largest first, of equal ones the smallest id
  /// first, with their ids. There must be enough().
  int32_t sample(std::span<const double> largest, std::span<const int32_t> ids);

private:
  /// Of the candidates, `best` being the most likely token and `largest` its logit.
  int32_t draw(int32_t best, double largest);
  double nextUniform();

  SamplingOptions options;
  uint64_t drawn = 0;
  std::vector<std::pair<double, int32_t>> candidates; ///< kept between calls
};

} // namespace gemma
