#include "runtime/device/CpuFeatures.h"
#include "runtime/support/File.h"
#include "tools/gemma-bench/Bench.h"

namespace gemma::bench {

Status finishReport(const BenchOptions &options, const char *mode, int64_t rounds, Json report,
                    const std::function<void(BudgetCheck &)> &judge) {
  Status verdict;
  if (options.budget) {
    Expected<BudgetCheck> budget = BudgetCheck::open(mode);
    if (!budget)
      return budget.status();
    judge(*budget);
    verdict = budget->finish(report);
  }
  if (options.jsonFile.empty() || interrupted)
    return verdict;
  Json whole = {{"mode", mode}, {"cpu", cpuName()}, {"rounds", rounds}};
  whole.update(report);
  if (Status written = writeFileAtomically(options.jsonFile, whole.dump(2) + "\n"); !written)
    return written;
  return verdict;
}

} // namespace gemma::bench
