#include "tools/compiler/ExecutedKernels.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mlir;
using llvm::formatv;

namespace gemma::compiler {

extern const char *const executedRecord;

static std::string typeText(Value memory) {
  std::string text;
  llvm::raw_string_ostream(text) << cast<MemRefType>(memory.getType()).getElementType();
  return text;
}

static std::string signatureOf(kernel::ContractOp op) {
  kernel::MmaAttr tile = op.getGpuTileAttr();
  return formatv("mma {0}x{1}x{2}, {3} stages{4}{5}, {6} x {7} -> {8}{9}", tile.getRows(),
                 tile.getTokens(), tile.getK(), tile.getStages(),
                 tile.getSegments() > 0 ? ", shared" : "", op.getPair() ? ", pairs" : "",
                 typeText(op.getAct()), typeText(op.getWeight()), typeText(op.getOut()),
                 op.getBest() ? " and largest" : "");
}

static std::string signatureOf(kernel::AttentionOp op) {
  kernel::FlashAttr tile = op.getGpuTileAttr();
  auto values = cast<MemRefType>(op.getVCache().getType());
  int64_t group = cast<MemRefType>(op.getOut().getType()).getDimSize(1) / values.getDimSize(1);
  return formatv("flash {0} queries, {1} heads of {2}, {3} keys, {4} stages{5}{6}{7}",
                 op.getQueryTile(), group, values.getDimSize(3), tile.getKeys(), tile.getStages(),
                 tile.getSplits() > 1 ? ", shared" : "", op.getWindow() ? ", window" : "",
                 op.getKCache() ? "" : ", keys of values");
}

std::string signatureOf(kernel::FuncOp kernel) {
  std::string core;
  int64_t rows = 0, longest = 0;
  kernel.walk([&](Operation *op) {
    if (auto contract = dyn_cast<kernel::ContractOp>(op); contract && contract.getGpuTile())
      core = signatureOf(contract);
    else if (auto attention = dyn_cast<kernel::AttentionOp>(op);
             attention && attention.getGpuTile())
      core = signatureOf(attention);
    else if (isa<kernel::TopKOp>(op))
      core = "topk";
    else if (isa<kernel::RowsOp>(op)) {
      ++rows;
      for (Type type : op->getRegion(0).front().getArgumentTypes())
        if (auto row = dyn_cast<RankedTensorType>(type))
          longest = std::max(longest, row.getDimSize(0));
    }
  });
  if (!core.empty())
    return rows ? formatv("{0}, after {1} of rows", core, rows).str() : core;
  // Rows differ in what they compute: the kernel's name without its hash says what.
  StringRef name = kernel.getSymName();
  return formatv("rows {0}, {1} elements, {2} threads", name.rsplit('_').first, longest,
                 kernel.getLaunchAttr() ? kernel.getLaunchAttr().getThreads() : 0);
}

const std::vector<ExecutedKernel> &executedKernels() {
  static const std::vector<ExecutedKernel> all = [] {
    std::vector<ExecutedKernel> kernels;
    SmallVector<StringRef> lines;
    StringRef(executedRecord).split(lines, '\n', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      if (!line.starts_with("#")) {
        auto [suite, signature] = line.split(": ");
        kernels.push_back({suite.str(), signature.str()});
      }
    return kernels;
  }();
  return all;
}

std::optional<std::string> suiteThatExecutes(const std::string &signature) {
  const std::vector<ExecutedKernel> &all = executedKernels();
  auto found = std::ranges::find(all, signature, &ExecutedKernel::signature);
  return found == all.end() ? std::nullopt : std::optional(found->suite);
}

} // namespace gemma::compiler
