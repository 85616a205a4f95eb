#include "tools/driver/PackingProgress.h"

#include <cstdio>
#include <unistd.h>

namespace gemma::driver {

PackingProgress::PackingProgress(bool quiet, Clock::time_point start)
    : quiet(quiet), terminal(::isatty(STDERR_FILENO)), start(start) {}

PackingProgress::~PackingProgress() {
  if (shown && terminal)
    std::fprintf(stderr, "\r%60s\r", "");
}

void PackingProgress::update(uint64_t done, uint64_t total) {
  double now = std::chrono::duration<double>(Clock::now() - start).count();
  if (quiet || now < next)
    return;
  next = now + (terminal ? 0.2 : 5);
  shown = true;
  std::fprintf(stderr, "%spacking weights: %3.0f %% of %.2f GiB%s", terminal ? "\r" : "",
               100.0 * double(done) / double(total), double(total) / (1 << 30),
               terminal ? "" : "\n");
}

} // namespace gemma::driver
