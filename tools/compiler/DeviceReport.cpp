#include "tools/compiler/DeviceReport.h"

#include "codegen/gpu/Ptxas.h"
#include "dialect/program/Program.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"
#include "tools/compiler/DeviceCode.h"
#include "tools/compiler/ExecutedKernels.h"

#include "mlir/IR/IntegerSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using llvm::formatv;

namespace gemma::compiler {
namespace {

/// Positions of the steps that are modelled.
constexpr int64_t modelledPositions = 4096;

bool holds(IntegerSet condition, const StepSizes &sizes) {
  int64_t symbols[] = {sizes.tokens, sizes.sequences, sizes.longestRun, sizes.longest,
                       sizes.logitRows};
  MLIRContext *context = condition.getContext();
  SmallVector<AffineExpr> values;
  for (int64_t symbol : symbols)
    values.push_back(getAffineConstantExpr(symbol, context));
  for (unsigned i = 0; i < condition.getNumConstraints(); ++i) {
    AffineExpr value = condition.getConstraint(i).replaceSymbols(values);
    auto constant = dyn_cast<AffineConstantExpr>(value);
    if (!constant || (condition.isEq(i) ? constant.getValue() != 0 : constant.getValue() < 0))
      return false;
  }
  return true;
}

class Reporter {
public:
  Reporter(ModuleOp module, const DeviceModel &device, TargetReport &report)
      : module(module), device(device), report(report) {}

  /// Two texts for different architectures are the same code if only their `.target` differs.
  static std::string hashOf(StringRef ptx) {
    auto [before, rest] = ptx.split("\n.target ");
    return hashHex(before.str() + rest.split('\n').second.str());
  }

  void addKernel(const codegen::PtxKernel &kernel, int64_t registers) {
    auto function = module.lookupSymbol<kernel::FuncOp>(kernel.name);
    ReportedKernel made{kernel.name,
                        instanceOf(function),
                        BlockNeeds{kernel.threads, kernel.sharedBytes, registers},
                        0,
                        hashOf(kernel.ptx.at(device.chip)),
                        signatureOf(function),
                        ""};
    made.executed = suiteThatExecutes(made.signature).value_or("");
    made.blocksOfProcessor = blocksOfProcessor(device, made.block);
    blocksOf[kernel.name] = made.blocksOfProcessor;
    report.kernels.push_back(std::move(made));
  }

  /// Adds one step to the sums of `step` and makes its launches those of this one.
  void addStep(ReportedStep &step, const StepSizes &sizes) {
    step.sizes = sizes;
    step.launches.clear();
    for (auto variant : module.getOps<program::VariantOp>())
      if (holds(variant.getCondition(), sizes)) {
        step.variant = variant.getSymName().str();
        addLaunches(step, variant);
        return;
      }
  }

private:
  void addLaunches(ReportedStep &step, program::VariantOp variant) {
    llvm::MapVector<StringRef, int64_t> counts;
    for (auto launch : variant.getBody().front().getOps<program::LaunchOp>())
      ++counts[launch.getKernel()];
    for (auto [name, count] : counts) {
      ReportedLaunches launches = launchesOf(name, step.sizes);
      launches.count = count;
      if (launches.blocks == 0) // nothing is launched
        continue;
      double n = double(count);
      step.launchCount += count;
      step.cost.bytes += n * launches.cost.bytes;
      step.cost.flops += n * launches.cost.flops;
      step.seconds += n * launches.seconds;
      step.withFill += n * launches.seconds / launches.fill;
      step.withGaps += n * (launches.seconds / launches.fill + launchGap);
      step.launches.push_back(std::move(launches));
    }
  }

  ReportedLaunches launchesOf(StringRef name, const StepSizes &sizes) {
    auto function = module.lookupSymbol<kernel::FuncOp>(name);
    ReportedLaunches made;
    made.kernel = name.str();
    made.blocks = gridBlocks(function, sizes);
    made.cost = costOf(function, sizes);
    double blocks = double(made.blocks), processors = double(device.processors);
    double atOnce = processors * double(std::max<int64_t>(1, blocksOf[made.kernel]));
    made.waves = int64_t(std::ceil(blocks / atOnce));
    made.fill = blocks / processors / std::max(1.0, std::ceil(blocks / processors));
    double bytes = made.cost.bytes / device.bytesPerSecond;
    double flops = made.cost.flops / device.flopsPerSecond;
    made.ofMemory = bytes >= flops;
    made.seconds = std::max(bytes, flops);
    return made;
  }

  ModuleOp module;
  const DeviceModel &device;
  TargetReport &report;
  std::map<std::string, int64_t> blocksOf;
};

} // namespace

TargetReport reportTarget(ModuleOp module, const std::string &target, const DeviceModel &device,
                          const std::vector<codegen::PtxKernel> &kernels,
                          const std::map<std::string, int64_t> &registers, int64_t maxContext,
                          int64_t maxChunk) {
  TargetReport report;
  report.target = target;
  report.device = device;
  Reporter reporter(module, device, report);
  for (const codegen::PtxKernel &kernel : kernels) {
    auto known = registers.find(kernel.name);
    reporter.addKernel(kernel, known == registers.end() ? 0 : known->second);
  }
  int64_t positions = std::min(modelledPositions, maxContext);
  ReportedStep decode, prefill;
  decode.name = "decode";
  prefill.name = "prefill";
  reporter.addStep(decode, {.longest = positions});
  prefill.steps = 0;
  for (int64_t first = 0; first < positions; first += maxChunk, ++prefill.steps) {
    int64_t tokens = std::min(maxChunk, positions - first);
    bool isLast = first + tokens == positions;
    reporter.addStep(prefill, {.tokens = tokens,
                               .longestRun = tokens,
                               .longest = first + tokens,
                               .logitRows = isLast ? 1 : 0});
  }
  report.steps = {std::move(decode), std::move(prefill)};
  return report;
}

/// Assembles the kernels and gives their registers; none without a ptxas.
static Expected<std::map<std::string, int64_t>>
registersOf(const std::vector<codegen::PtxKernel> &kernels, const std::string &target,
            const std::string &dumpDir) {
  std::map<std::string, int64_t> registers;
  Expected<std::string> ptxas = codegen::findPtxas();
  std::string chip = chipOf(target);
  auto dump = [&](const std::string &kernel, const char *suffix, const std::string &bytes) {
    return dumpDir.empty()
               ? Status()
               : writeFileAtomically(dumpDir + "/" + kernel + "." + target + suffix, bytes);
  };
  for (const codegen::PtxKernel &kernel : kernels) {
    if (Status status = dump(kernel.name, ".ptx", kernel.ptx.at(chip)); !status)
      return status.error();
    if (!ptxas)
      continue;
    auto made = codegen::assemble(*ptxas, kernel.name, kernel.ptx.at(chip), chip);
    if (!made)
      return made.error();
    if (Status status = dump(kernel.name, ".cubin", made->cubin); !status)
      return status.error();
    registers[kernel.name] = made->registers;
  }
  return registers;
}

Expected<std::vector<TargetReport>> reportDevices(ModuleOp module,
                                                  const std::vector<std::string> &targets,
                                                  const std::string &dumpDir, int64_t maxContext,
                                                  int64_t maxChunk) {
  std::vector<TargetReport> reports;
  for (const std::string &target : targets) {
    const codegen::GpuTarget *chip = codegen::findGpuTarget(chipOf(target));
    const DeviceModel *device = findDeviceModel(chipOf(target));
    if (!chip || !device)
      return usage("--report: expected CUDA targets, got " + target);
    auto kernels = codegen::emitPtx(module, {*chip});
    if (!kernels)
      return kernels.error();
    auto registers = registersOf(*kernels, target, dumpDir);
    if (!registers)
      return registers.error();
    reports.push_back(
        reportTarget(module, target, *device, *kernels, *registers, maxContext, maxChunk));
  }
  return reports;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string registersText(int64_t registers) {
  return registers ? std::to_string(registers) : "-";
}

static std::string stepTitle(const ReportedStep &step) {
  if (step.steps == 1 && step.sizes.tokens == 1)
    return formatv("{0}: 1 token at position {1}", step.name, step.sizes.longest - 1);
  return formatv("{0}: {1} tokens in {2} step{3}, the last one below", step.name,
                 step.sizes.longest, step.steps, step.steps == 1 ? "" : "s");
}

static void printTarget(llvm::raw_ostream &os, const TargetReport &report) {
  const DeviceModel &device = report.device;
  os << formatv("{0}: {1}, {2} multiprocessors\n", report.target, device.device, device.processors);
  os << formatv("  assumed: {0:F2} TB/s, {1:F0} TFLOP/s: {2}; {3:F1} us between launches\n",
                device.bytesPerSecond / 1e12, device.flopsPerSecond / 1e12, device.source,
                launchGap * 1e6);
  size_t width = 6;
  for (const ReportedKernel &kernel : report.kernels)
    width = std::max(width, kernel.name.size());
  auto name = [&](const std::string &text) {
    return text + std::string(width + 1 - std::min(width, text.size()), ' ');
  };
  os << "  kernels\n    " << name("kernel") << "regs  smem B threads blk/SM  tests     instance\n";
  for (const ReportedKernel &kernel : report.kernels)
    os << formatv("    {0}{1,4} {2,7} {3,7} {4,6}  {5,-9} {6}\n", name(kernel.name),
                  registersText(kernel.block.registers), kernel.block.sharedBytes,
                  kernel.block.threads, kernel.blocksOfProcessor,
                  kernel.executed.empty() ? "assembled" : kernel.executed, kernel.instance);
  for (const ReportedStep &step : report.steps) {
    os << formatv("  {0} ({1})\n    {2}", stepTitle(step), step.variant, name("kernel"))
       << "count    grid  waves  fill       MB    GFLOP        us  bound\n";
    for (const ReportedLaunches &launches : step.launches)
      os << formatv("    {0}{1,5} {2,7} {3,6}  {4:F2} {5,8:F3} {6,8:F3} {7,9:F2}  {8}\n",
                    name(launches.kernel), launches.count, launches.blocks, launches.waves,
                    launches.fill, launches.cost.bytes / 1e6, launches.cost.flops / 1e9,
                    launches.seconds * 1e6, launches.ofMemory ? "memory" : "compute");
    os << formatv("    in all {0} launches, {1:F1} MB, {2:F1} GFLOP: {3:F3} ms by bytes and FLOPs, "
                  "{4:F3} with fill, {5:F3} with fill and launches\n",
                  step.launchCount, step.cost.bytes / 1e6, step.cost.flops / 1e9,
                  step.seconds * 1e3, step.withFill * 1e3, step.withGaps * 1e3);
  }
}

std::string reportText(const std::vector<TargetReport> &reports) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "A model, not a measurement: bytes and FLOPs are what a launch has to move and compute at "
        "least;\ntimes take the longer of the two at the device's assumed rates. fill: mean / "
        "largest number of blocks a multiprocessor gets.\ntests: the suite that executes the "
        "kernel's code path on the emulated device, from the same PTX; assembled: none does.\n";
  for (const TargetReport &report : reports)
    printTarget(os, report);
  return text;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

using Json = nlohmann::ordered_json;

static Json stepJson(const ReportedStep &step) {
  Json launches = Json::array();
  for (const ReportedLaunches &each : step.launches)
    launches.push_back({{"kernel", each.kernel},
                        {"count", each.count},
                        {"grid", each.blocks},
                        {"waves", each.waves},
                        {"fill", each.fill},
                        {"bytes", each.cost.bytes},
                        {"flops", each.cost.flops},
                        {"seconds", each.seconds},
                        {"bound", each.ofMemory ? "memory" : "compute"}});
  return {{"name", step.name},
          {"variant", step.variant},
          {"positions", step.sizes.longest},
          {"steps", step.steps},
          {"launches", step.launchCount},
          {"bytes", step.cost.bytes},
          {"flops", step.cost.flops},
          {"seconds", step.seconds},
          {"seconds_with_fill", step.withFill},
          {"seconds_with_fill_and_launches", step.withGaps},
          {"last_step", std::move(launches)}};
}

Json reportJson(const std::vector<TargetReport> &reports) {
  Json targets = Json::array();
  for (const TargetReport &report : reports) {
    const DeviceModel &device = report.device;
    Json kernels = Json::array(), steps = Json::array();
    for (const ReportedKernel &kernel : report.kernels)
      kernels.push_back(
          {{"name", kernel.name},
           {"instance", kernel.instance},
           {"registers", kernel.block.registers ? Json(kernel.block.registers) : Json(nullptr)},
           {"shared_bytes", kernel.block.sharedBytes},
           {"threads", kernel.block.threads},
           {"blocks_per_multiprocessor", kernel.blocksOfProcessor},
           {"ptx", kernel.ptxHash},
           {"signature", kernel.signature},
           {"executed", kernel.executed.empty() ? Json(nullptr) : Json(kernel.executed)}});
    for (const ReportedStep &step : report.steps)
      steps.push_back(stepJson(step));
    targets.push_back({{"target", report.target},
                       {"device", device.device},
                       {"multiprocessors", device.processors},
                       {"assumed",
                        {{"bytes_per_second", device.bytesPerSecond},
                         {"flops_per_second", device.flopsPerSecond},
                         {"source", device.source},
                         {"seconds_between_launches", launchGap}}},
                       {"kernels", std::move(kernels)},
                       {"steps", std::move(steps)}});
  }
  return {{"kind", "model, not a measurement"}, {"targets", std::move(targets)}};
}

} // namespace gemma::compiler
