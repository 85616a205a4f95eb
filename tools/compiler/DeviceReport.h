// What a program's kernels take of CUDA devices, and what its steps should cost there: a model, not
// a measurement.
#pragma once

#include "codegen/gpu/PtxEmitter.h"
#include "tools/compiler/DeviceModel.h"
#include "tools/compiler/KernelCost.h"

#include "mlir/IR/BuiltinOps.h"

#include <nlohmann/json.hpp>

#include <map>

namespace gemma::compiler {

/// A kernel as it is made for one architecture.
struct ReportedKernel {
  std::string name;
  std::string instance; ///< instanceOf()
  BlockNeeds block;     ///< registers 0: there is no ptxas
  int64_t blocksOfProcessor = 0;
  /// Of the text without its line `.target`: equal hashes are the text that the emulated device
  /// executes.
  std::string ptxHash;
  std::string signature; ///< signatureOf()
  std::string executed;  ///< the suite of tests that executes it; empty: assembled only
};

/// All launches of one kernel in a step.
struct ReportedLaunches {
  std::string kernel;
  int64_t count = 0;
  int64_t blocks = 0; ///< of one launch, as all that follows
  int64_t waves = 0;  ///< of as many blocks as the device holds at once
  double fill = 0;    ///< mean ÷ largest number of blocks that a multiprocessor gets
  KernelCost cost;
  double seconds = 0;   ///< the longer of its bytes' and its FLOPs'
  bool ofMemory = true; ///< bytes take longer
};

struct ReportedStep {
  std::string name; ///< "decode"
  std::string variant;
  StepSizes sizes;   ///< of the last one
  int64_t steps = 1; ///< that are counted in the sums below; `launches` are of the last one
  std::vector<ReportedLaunches> launches;
  int64_t launchCount = 0;
  KernelCost cost;
  double seconds = 0;  ///< sum of the launches
  double withFill = 0; ///< each divided by its fill
  double withGaps = 0; ///< and launchGap between launches
};

struct TargetReport {
  std::string target; ///< as asked for
  DeviceModel device;
  std::vector<ReportedKernel> kernels;
  std::vector<ReportedStep> steps;
};

/// Seconds that are assumed to pass between two launches of a stream.
inline constexpr double launchGap = 4e-6;

/// What is said of a module of the memory phase. `registers` by kernel; of others they are not
/// known. The steps are a decode step of one sequence and a prefill of one prompt, both of 4096
/// positions or as many as a sequence can have.
TargetReport reportTarget(mlir::ModuleOp module, const std::string &target,
                          const DeviceModel &device, const std::vector<codegen::PtxKernel> &kernels,
                          const std::map<std::string, int64_t> &registers, int64_t maxContext,
                          int64_t maxChunk);

/// A report for each target. Kernels are assembled where there is a ptxas; one that spills is
/// refused. With `dumpDir`, KERNEL.TARGET.{ptx,cubin} are written there.
Expected<std::vector<TargetReport>> reportDevices(mlir::ModuleOp module,
                                                  const std::vector<std::string> &targets,
                                                  const std::string &dumpDir, int64_t maxContext,
                                                  int64_t maxChunk);

/// For people; says that it is a model and with which constants.
std::string reportText(const std::vector<TargetReport> &reports);
nlohmann::ordered_json reportJson(const std::vector<TargetReport> &reports);

} // namespace gemma::compiler
