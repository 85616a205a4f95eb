// What Ctrl-C does to a tool. Either way its exit code is 130.
#pragma once

#include <atomic>

namespace gemma::driver {

inline constexpr int interruptedCode = 130;

/// Set by Ctrl-C after catchInterrupts().
extern std::atomic<bool> interrupted;

/// For tools that end in good order: Ctrl-C sets `interrupted`, a second one ends the process at
/// once. Waiting for a line of input ends too.
void catchInterrupts();

/// For tools that have nothing to say: Ctrl-C removes unfinished files and ends the process at
/// once.
void endOnInterrupt();

} // namespace gemma::driver
