// The tests that take minutes.
#pragma once

#include <cstdlib>
#include <string_view>

namespace gemma::test {

/// Whether they are wanted: GEMMA_LONG_TESTS=1, which scripts/test.sh --long sets.
inline bool wantsLongTests() {
  const char *wanted = std::getenv("GEMMA_LONG_TESTS");
  return wanted && std::string_view(wanted) == "1";
}

} // namespace gemma::test
