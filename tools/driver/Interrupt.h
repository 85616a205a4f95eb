// What Ctrl-C does to a tool. Either way its exit code is 130.
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace gemma::driver {

inline constexpr int interruptedCode = 130;

/// Set by Ctrl-C after catchInterrupts().
extern std::atomic<bool> interrupted;

/// For tools that end in good order: Ctrl-C sets `interrupted`, a second one ends the process at
/// once. Waiting for a line of input ends too.
void catchInterrupts();

/// For tools that have nothing to say: Ctrl-C, a request to terminate or a lost terminal removes
/// unfinished files and ends the process at once, with 128 and the signal's number.
void endOnInterrupt();

inline constexpr std::array endingSignals = {SIGINT, SIGTERM, SIGHUP};

/// While it lives, those signals come too late and do nothing: for the moment in which files that
/// belong together get their names.
class IgnoreInterrupts {
public:
  IgnoreInterrupts();
  ~IgnoreInterrupts();
  IgnoreInterrupts(const IgnoreInterrupts &) = delete;
  IgnoreInterrupts &operator=(const IgnoreInterrupts &) = delete;

private:
  std::array<struct sigaction, endingSignals.size()> before{};
};

} // namespace gemma::driver
