// The five modes of gemma-bench.
#pragma once

#include "runtime/support/Status.h"
#include "tools/gemma-bench/Budget.h"
#include "tools/measure/Measure.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gemma::bench {

struct BenchOptions {
  // All modes:
  int64_t rounds = 0;   ///< 0: the mode's default
  std::string jsonFile; ///< empty: none
  bool budget = false;  ///< judge by bench/budgets.json
  // All that run:
  int64_t threads = 0;      ///< 0: the cores this process may use
  int64_t bufferMiB = 1024; ///< of the limits' buffer
  // kernels, model:
  std::string artifact; ///< empty (kernels): the built-in model
  int64_t prompt = 0;   ///< 0: 512, or what there is room for
  int64_t decode = 0;   ///< 0: 32, or what there is room for
  int64_t context = 0;  ///< positions cached before the first decoded token; at least the prompt's
  // model:
  std::vector<int64_t> longPrompts;  ///< prefilled too, and compared with the prompt
  std::vector<int64_t> longContexts; ///< decoded after too, and compared with the context
  std::string packedWeights;         ///< a file to map; empty: weights are made up
  int64_t beside = 0;                ///< processes that compute while it decodes once more
  // compile, emu:
  std::vector<std::string> inputs; ///< empty: the published configurations
  // compile:
  std::vector<std::string> weightTypes = {"bf16"}; ///< bf16, int8, int4
  // emu:
  std::string target = "emu-sm_80";
  std::vector<int64_t> batches; ///< sequences of the decode steps; empty: 1, 8, 32
  int64_t blocks = 8;           ///< most blocks of a launch that run
};

Status benchLimits(const BenchOptions &options);
Status benchKernels(BenchOptions options);
Status benchModel(BenchOptions options);
Status benchCompile(const BenchOptions &options);
Status benchEmu(BenchOptions options);

/// Ends a mode. If wanted, `judge` compares what was measured with the budgets of the mode; the
/// verdict goes into `report` and is the result. If wanted, `report` is written to
/// options.jsonFile, whatever the verdict, with what was measured and on what: "mode", "cpu",
/// "rounds" come first.
Status finishReport(const BenchOptions &options, const char *mode, int64_t rounds, Json report,
                    const std::function<void(BudgetCheck &)> &judge);

} // namespace gemma::bench
