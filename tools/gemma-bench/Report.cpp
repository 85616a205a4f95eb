#include "runtime/device/CpuFeatures.h"
#include "runtime/support/File.h"
#include "tools/gemma-bench/Bench.h"

namespace gemma::bench {

Status writeReport(const BenchOptions &options, const char *mode, int64_t rounds, Json report) {
  if (options.jsonFile.empty() || interrupted)
    return {};
  Json whole = {{"mode", mode}, {"cpu", cpuName()}, {"rounds", rounds}};
  whole.update(report);
  return writeFileAtomically(options.jsonFile, whole.dump(2) + "\n");
}

} // namespace gemma::bench
