#include "tools/gemma-gpu-check/Cases.h"

#include <algorithm>

namespace gemma::check {

std::vector<Case> casesFor(const Program &program) {
  const ProgramLimits &limits = program.limits;
  std::vector<Case> cases;
  for (int64_t tokens : {1, 4, 8, 9, 17, 33, 64, 129, 257})
    if (tokens <= limits.maxChunk && tokens <= limits.maxContext)
      cases.push_back({"prompt-" + std::to_string(tokens), 1, {{{0, tokens}}}});
  for (int64_t batch : {2, 8}) {
    if (batch > limits.maxBatch || batch + 2 > limits.maxChunk)
      continue;
    Case made{"batch-" + std::to_string(batch), size_t(batch), {}};
    std::vector<CaseRow> decode, mixed;
    for (int64_t b = 0; b < batch; ++b) {
      int64_t length = std::min({3 + 7 * b, limits.maxChunk, limits.maxContext - 4});
      made.steps.push_back({{size_t(b), length}});
      decode.push_back({size_t(b), 1});
      mixed.push_back({size_t(b), b == 1 ? 3 : 1});
    }
    made.steps.push_back(decode);
    made.steps.push_back(mixed);
    cases.push_back(std::move(made));
  }
  int64_t window = 0;
  for (const CachePlan &cache : program.caches)
    window = std::max(window, cache.window);
  int64_t length = std::min(window + 40, limits.maxContext - 2);
  Case longer{"window", 1, {}};
  for (int64_t left = length; left > 0; left -= std::min(left, limits.maxChunk))
    longer.steps.push_back({{0, std::min(left, limits.maxChunk)}});
  longer.steps.push_back({{0, 1}});
  cases.push_back(std::move(longer));
  return cases;
}

std::vector<int32_t> caseTokens(int64_t count, int64_t vocab, uint64_t seed) {
  std::vector<int32_t> tokens;
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tokens.push_back(int32_t((state >> 33) % uint64_t(vocab)));
  }
  return tokens;
}

} // namespace gemma::check
