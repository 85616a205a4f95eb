#include "tools/measure/Measure.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <unistd.h>

namespace gemma::measure {

double Series::median() const {
  if (values.empty())
    return 0;
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  size_t middle = sorted.size() / 2;
  return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Series::best() const {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double Series::steadiness() const { return best() > 0 ? median() / best() : 0; }

Json Series::json() const { return {{"median", median()}, {"best", best()}, {"rounds", values}}; }

Series ratio(const Series &of, const Series &to) {
  Series result;
  for (size_t i = 0; i < std::min(of.values.size(), to.values.size()); ++i)
    result.add(to.values[i] > 0 ? of.values[i] / to.values[i] : 0);
  return result;
}

Share::Share(const Series &of, const Series &limit)
    : best(limit.best() > 0 ? of.best() / limit.best() : 0), median(ratio(of, limit).median()) {}

Json Share::json() const { return {{"best", best}, {"median", median}}; }

Progress::Progress() : terminal(::isatty(STDERR_FILENO)) {}

Progress::~Progress() {
  if (shown && terminal)
    std::fprintf(stderr, "\r\x1b[K");
}

void Progress::update(const std::string &what) {
  double now = watch.seconds();
  if (now < 2 || now - last < (terminal ? 0.2 : 5))
    return;
  last = now;
  shown = true;
  std::fprintf(stderr, "%s[%.0f s] %s%s", terminal ? "\r\x1b[K" : "", now, what.c_str(),
               terminal ? "" : "\n");
}

std::atomic<bool> interrupted{false};

void catchInterrupts() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted.store(true); };
  action.sa_flags = int(SA_RESETHAND); // the second one has its usual effect
  sigaction(SIGINT, &action, nullptr);
}

} // namespace gemma::measure
