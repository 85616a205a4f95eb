#include "tools/driver/Interrupt.h"

#include "runtime/support/UnfinishedFile.h"

#include <unistd.h>

namespace gemma::driver {

std::atomic<bool> interrupted{false};

void catchInterrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted.store(true); };
  // Once: the second Ctrl-C has its usual effect. Reads are not restarted, so that waiting for a
  // line ends too.
  action.sa_flags = int(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

void endOnInterrupt() {
  struct sigaction action{};
  action.sa_handler = [](int signal) {
    removeUnfinishedFiles();
    _exit(128 + signal);
  };
  for (int signal : endingSignals) {
    struct sigaction before{};
    sigaction(signal, nullptr, &before);
    if (signal != SIGHUP || before.sa_handler != SIG_IGN) // nohup has it ignored
      sigaction(signal, &action, nullptr);
  }
}

IgnoreInterrupts::IgnoreInterrupts() {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  for (size_t i = 0; i < endingSignals.size(); ++i)
    sigaction(endingSignals[i], &ignore, &before[i]);
}

IgnoreInterrupts::~IgnoreInterrupts() {
  for (size_t i = 0; i < endingSignals.size(); ++i)
    sigaction(endingSignals[i], &before[i], nullptr);
}

} // namespace gemma::driver
