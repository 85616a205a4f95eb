// Steps that bring every kernel of a model to odd sizes.
#pragma once

#include "runtime/abi/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace gemma::check {

/// New tokens of one of a case's sequences.
struct CaseRow {
  size_t sequence = 0;
  int64_t tokens = 0;
};

struct Case {
  std::string name;
  size_t sequences = 1;
  std::vector<std::vector<CaseRow>> steps;
};

/// The cases that fit the limits: prompts of lengths on both sides of every tile's edge, batches,
/// mixed steps, a prompt longer than the window.
std::vector<Case> casesFor(const Program &program);

/// Token ids, the same in every run.
std::vector<int32_t> caseTokens(int64_t count, int64_t vocab, uint64_t seed);

} // namespace gemma::check
