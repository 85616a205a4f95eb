#include "tools/driver/Interrupt.h"

#include "runtime/support/UnfinishedFile.h"

#include <csignal>
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
  action.sa_handler = [](int) {
    removeUnfinishedFiles();
    _exit(interruptedCode);
  };
  sigaction(SIGINT, &action, nullptr);
}

} // namespace gemma::driver
