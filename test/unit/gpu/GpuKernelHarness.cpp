#include "test/unit/gpu/GpuKernelHarness.h"

#include "codegen/emu/EmuCodegen.h"
#include "dialect/kernel/SharedMemory.h"

#include "mlir/Parser/Parser.h"

namespace gemma::test {

std::vector<Mode> modes(bool all) {
  using emu::AsyncMode;
  using emu::Order;
  if (!all)
    return {{Order::Forward, AsyncMode::Latest},
            {Order::Reverse, AsyncMode::Earliest},
            {Order::Random, AsyncMode::Random}};
  std::vector<Mode> result;
  for (Order order : {Order::Forward, Order::Reverse, Order::Random})
    for (AsyncMode async : {AsyncMode::Latest, AsyncMode::Earliest, AsyncMode::Random})
      result.push_back({order, async});
  return result;
}

GpuKernel::GpuKernel(const std::string &text) {
  mlir::DialectRegistry registry;
  registry.insert<kernel::KernelDialect>();
  codegen::registerGpuCodegenDialects(registry);
  mlir::MLIRContext context(registry);
  auto parsed = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!parsed) {
    ADD_FAILURE() << "cannot parse " << text;
    return;
  }
  compile(*parsed);
}

GpuKernel::GpuKernel(kernel::FuncOp kernel) {
  mlir::OpBuilder builder(kernel.getContext());
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(builder.getUnknownLoc());
  module->push_back(kernel->clone());
  compile(*module);
}

void GpuKernel::compile(mlir::ModuleOp module) {
  // No more shared memory than the kernel says it needs.
  for (kernel::FuncOp function : module.getOps<kernel::FuncOp>())
    function.setLaunchAttr(kernel::LaunchAttr::get(
        module.getContext(), function.getLaunch()->getThreads(), kernel::sharedBytes(function),
        /*producers=*/0));
  auto kernels = codegen::emitPtx(module, {*codegen::findGpuTarget("sm_80")});
  if (!kernels || kernels->size() != 1) {
    ADD_FAILURE() << (kernels ? "expected one kernel" : kernels.error().message);
    return;
  }
  name = kernels->front().name;
  threads = static_cast<uint32_t>(kernels->front().threads);
  sharedBytes = static_cast<uint32_t>(kernels->front().sharedBytes);
  if (Status status = load(kernels->front().ptx.at("sm_80")); !status)
    ADD_FAILURE() << status.error().message;
}

GpuKernel GpuKernel::withPtx(const std::string &text) const {
  GpuKernel other;
  other.name = name;
  other.threads = threads;
  other.sharedBytes = sharedBytes;
  if (Status status = other.load(text); !status)
    ADD_FAILURE() << status.error().message;
  return other;
}

Status GpuKernel::load(const std::string &text) {
  codegen::EmuCodegenOptions options;
  options.runsOnce = true; // calls of the emulated device take the time, not the code between them
  auto object = codegen::compilePtx(text, options);
  if (!object)
    return object.status();
  auto loaded = emu::Module::load(object->bytes, name);
  if (!loaded)
    return loaded.status();
  ptx = text;
  module.push_back(std::move(*loaded));
  return {};
}

void GpuKernel::run(DeviceMemory &memory, const std::vector<void *> &arguments,
                    const GemmaSizes &sizes, uint32_t blocks, Mode mode) const {
  emu::LaunchOptions options;
  options.order = mode.order;
  options.asyncMode = mode.async;
  options.seed = 11;
  auto report = attempt(memory, arguments, sizes, blocks, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->completed);
  EXPECT_TRUE(report->findings.empty()) << report->messages();
}

Expected<emu::LaunchReport> GpuKernel::attempt(DeviceMemory &memory,
                                               const std::vector<void *> &arguments,
                                               const GemmaSizes &sizes, uint32_t blocks,
                                               const emu::LaunchOptions &options) const {
  if (module.empty())
    return internalError("the kernel was not compiled");
  static WorkerPool pool(2);
  auto *deviceSizes = memory.allocate<GemmaSizes>(1, "sizes", /*readOnly=*/true);
  *deviceSizes = sizes;
  emu::ParamBuilder params;
  for (void *argument : arguments)
    params.add(argument);
  params.add(static_cast<void *>(deviceSizes));
  auto report = emu::launch(module.front(), name, {blocks, 1, 1}, {threads, 1, 1}, sharedBytes,
                            params.bytes(), memory.memory, pool, options);
  memory.memory.remove(deviceSizes);
  return report;
}

std::vector<float> randomValues(size_t count, uint32_t seed, float scale) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<float> values(count);
  for (float &value : values)
    value = uniform(generator);
  return values;
}

std::vector<uint16_t> toBf16(const std::vector<float> &values) {
  std::vector<uint16_t> result;
  for (float value : values)
    result.push_back(f32ToBf16(value));
  return result;
}

std::vector<uint16_t> packForGpu(const std::vector<uint16_t> &w, int64_t rows, int64_t columns) {
  int64_t blocks = (columns + 63) / 64, groups = (rows + 7) / 8;
  std::vector<uint16_t> packed(static_cast<size_t>(blocks * groups * 8 * 64), 0);
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t k = 0; k < columns; ++k) {
      int64_t r = n % 8, chunk = (k % 64 / 8) ^ r;
      packed[static_cast<size_t>(((k / 64 * groups + n / 8) * 8 + r) * 64 + chunk * 8 + k % 8)] =
          w[static_cast<size_t>(n * columns + k)];
    }
  return packed;
}

} // namespace gemma::test
