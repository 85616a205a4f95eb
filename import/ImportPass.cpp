#include "import/ImportPass.h"

#include "import/Import.h"
#include "runtime/checkpoint/Checkpoint.h"

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;

namespace gemma {
namespace {

struct ImportPass : PassWrapper<ImportPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ImportPass)

  ImportPass() = default;
  ImportPass(const ImportPass &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "gemma-import"; }
  StringRef getDescription() const override { return "replace the module by L1 of a config.json"; }
  void getDependentDialects(DialectRegistry &registry) const override {
    registerImportDialects(registry);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    std::optional<ScalarType> type = scalarTypeFromName(dtype.getValue());
    if (!type)
      return fail("unknown dtype '" + dtype.getValue() + "', expected f64, f32 or bf16");
    Expected<ModelConfig> model = readModelConfig(config.getValue());
    if (!model)
      return fail(model.error().message);
    ImportOptions options{*type};
    for (auto [name, to] : {std::pair(&weights, &options.matrices), {&embedding, &options.table}})
      if (!name->empty() && !(*to = scalarTypeFromName(name->getValue())))
        return fail("unknown type '" + name->getValue() + "', expected i8 or i4");
    if (codes == 16)
      options.codes = ScalarType::I16;
    options.top = top;
    OwningOpRef<ModuleOp> imported = importModel(getContext(), *model, options);
    if (!imported)
      return signalPassFailure();
    module.getBodyRegion().takeBody(imported->getBodyRegion());
    module->setAttrs((*imported)->getAttrDictionary());
  }

  void fail(const Twine &message) {
    getOperation().emitError() << message;
    signalPassFailure();
  }

  Option<std::string> config{*this, "config", llvm::cl::desc("a config.json")};
  Option<std::string> dtype{*this, "dtype", llvm::cl::desc("f64, f32 or bf16"),
                            llvm::cl::init("bf16")};
  Option<std::string> weights{*this, "weights", llvm::cl::desc("of matrices: i8 or i4")};
  Option<std::string> embedding{*this, "embedding", llvm::cl::desc("of the token table: i8 or i4")};
  Option<int> codes{*this, "codes", llvm::cl::desc("bits of activations: 8 or 16"),
                    llvm::cl::init(8)};
  Option<int64_t> top{*this, "top", llvm::cl::desc("largest logits that the step also gives"),
                      llvm::cl::init(0)};
};

} // namespace

void registerImportPass() { PassRegistration<ImportPass>(); }

} // namespace gemma
