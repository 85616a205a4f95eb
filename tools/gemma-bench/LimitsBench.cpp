// gemma-bench limits: what the machine can do at most.
#include "tools/gemma-bench/Bench.h"
#include "tools/measure/Limits.h"

namespace gemma::bench {

Status benchLimits(const BenchOptions &options) {
  int64_t rounds = options.rounds ? options.rounds : 5;
  unsigned threads = options.threads ? unsigned(options.threads) : WorkerPool::availableThreads();
  Progress progress;
  Expected<LimitMeter> meter =
      LimitMeter::create(uint64_t(options.bufferMiB) << 20, threads, /*onlyMost=*/false);
  if (!meter)
    return meter.status();
  for (int64_t round = 0; round < rounds && !interrupted; ++round)
    meter->measure(progress);
  if (interrupted)
    return {};
  meter->print();
  return finishReport(options, "limits", rounds, {{"limits", meter->json()}},
                      [&](BudgetCheck &budget) {
                        budget.check("this machine", "steadiness", meter->steadiness());
                      });
}

} // namespace gemma::bench
