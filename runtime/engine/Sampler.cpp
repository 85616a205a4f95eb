#include "runtime/engine/Sampler.h"

#include <algorithm>
#include <cmath>

namespace gemma {

int32_t argmax(std::span<const double> logits) {
  size_t best = 0;
  for (size_t i = 1; i < logits.size(); ++i)
    if (logits[i] > logits[best] || (std::isnan(logits[best]) && !std::isnan(logits[i])))
      best = i;
  return int32_t(best);
}

double logSumExp(std::span<const double> logits) {
  double largest = logits[size_t(argmax(logits))];
  if (!std::isfinite(largest))
    return largest;
  double sum = 0;
  for (double logit : logits)
    if (!std::isnan(logit))
      sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

/// SplitMix64 of seed and counter (Steele, Lea, Flood 2014), as a number in [0, 1).
double Sampler::nextUniform() {
  uint64_t z = options.seed + ++drawn * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return double((z ^ z >> 31) >> 11) * 0x1p-53;
}

int32_t Sampler::sample(std::span<const double> logits) {
  int32_t best = argmax(logits);
  double largest = logits[size_t(best)];
  // Nothing to draw from: no number at all, or one that no other comes near.
  if (options.greedy() || !std::isfinite(largest))
    return best;
  candidates.clear();
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i]))
      candidates.push_back({logits[i], int32_t(i)});
  return draw(best, largest);
}

int32_t Sampler::sample(std::span<const double> largest, std::span<const int32_t> ids) {
  if (options.greedy() || !std::isfinite(largest[0]))
    return ids[0];
  candidates.clear();
  for (size_t i = 0; i < ids.size(); ++i)
    if (std::isfinite(largest[i]))
      candidates.push_back({largest[i], ids[i]});
  return draw(ids[0], largest[0]);
}

int32_t Sampler::draw(int32_t best, double largest) {
  auto moreLikely = [](const auto &a, const auto &b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  if (options.topK > 0) {
    size_t keep = std::min(size_t(options.topK), candidates.size());
    std::partial_sort(candidates.begin(), candidates.begin() + std::ptrdiff_t(keep),
                      candidates.end(), moreLikely);
    candidates.resize(keep);
  } else if (options.topP < 1) {
    std::sort(candidates.begin(), candidates.end(), moreLikely);
  }
  // From logits to weights, the largest 1.
  double total = 0;
  for (auto &[value, index] : candidates) {
    value = std::exp((value - largest) / options.temperature);
    total += value;
  }
  if (options.topP < 1) {
    double sum = 0;
    size_t keep = 0;
    while (keep < candidates.size() && (keep == 0 || sum < options.topP * total))
      sum += candidates[keep++].first;
    candidates.resize(keep);
    total = sum;
  }
  if (options.minP > 0) {
    std::erase_if(candidates, [&](const auto &c) { return c.first < options.minP; });
    total = 0;
    for (const auto &candidate : candidates)
      total += candidate.first;
  }
  double target = nextUniform() * total;
  for (const auto &[weight, index] : candidates) {
    target -= weight;
    if (target < 0)
      return index;
  }
  // Rounding: the sum was a little less than it seemed.
  return candidates.empty() ? best : candidates.back().second;
}

} // namespace gemma
