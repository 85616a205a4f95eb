#include "tools/gemma-bench/BusyProcesses.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gemma::bench {

/// In the child: nothing that a process with threads must not do after fork().
[[noreturn]] static void spinForever(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) // it was gone before
    ::_exit(0);
  ::raise(SIGSTOP);
  for (volatile uint64_t turns = 0;;)
    turns = turns + 1;
}

Expected<BusyProcesses> BusyProcesses::start(int64_t count) {
  BusyProcesses busy;
  pid_t parent = ::getpid();
  for (int64_t i = 0; i < count; ++i) {
    pid_t child = ::fork();
    if (child < 0)
      return internalError(std::string("fork: ") + std::strerror(errno));
    if (child == 0)
      spinForever(parent);
    busy.children.push_back(child);
    int state = 0;
    while (::waitpid(child, &state, WUNTRACED) < 0)
      if (errno != EINTR)
        return internalError(std::string("waitpid: ") + std::strerror(errno));
    if (!WIFSTOPPED(state))
      return internalError("a busy process ended by itself");
  }
  return busy;
}

BusyProcesses::~BusyProcesses() {
  for (pid_t child : children)
    ::kill(child, SIGKILL);
  for (pid_t child : children)
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

void BusyProcesses::spin(bool on) const {
  for (pid_t child : children)
    ::kill(child, on ? SIGCONT : SIGSTOP);
}

double fairShare(int64_t cores, int64_t threads, int64_t busy) {
  // Threads beyond the cores gain nothing alone either.
  double alone = double(std::min(cores, threads));
  double beside = double(threads) * std::min(1.0, double(cores) / double(threads + busy));
  return beside / alone;
}

} // namespace gemma::bench
