#include "passes/lower/KernelAssembler.h"

#include "passes/lower/FuseRows.h"

#include "dialect/kernel/SharedMemory.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace gemma::passes {

KernelAssembler::KernelAssembler(OpBuilder &builder, Location loc) : inner(builder) {
  OperationState state(loc, kernel::FuncOp::getOperationName());
  state.addAttribute("sym_name", builder.getStringAttr("kernel"));
  state.addAttribute("function_type", TypeAttr::get(builder.getFunctionType({}, {})));
  state.addAttribute("grid", AffineMapAttr::get(AffineMap::getConstantMap(0, loc.getContext())));
  Region *body = state.addRegion();
  body->push_back(new Block());
  function = cast<kernel::FuncOp>(Operation::create(state));
  inner.setInsertionPointToEnd(&function.getBody().front());
  kernel::ReturnOp::create(inner, loc);
  inner.setInsertionPoint(&function.getBody().front().back());
}

Value KernelAssembler::argument(Value programMemory, kernel::Access access) {
  auto it = arguments.find(programMemory);
  if (it == arguments.end()) {
    BlockArgument value =
        function.getBody().front().addArgument(programMemory.getType(), programMemory.getLoc());
    arguments.insert({programMemory, {value, access}});
    return value;
  }
  if (it->second.access != access)
    it->second.access = kernel::Access::ReadWrite;
  return it->second.value;
}

void KernelAssembler::markRead(Value kernelMemory) {
  for (auto &[memory, argument] : arguments)
    if (argument.value == kernelMemory && argument.access == kernel::Access::Write)
      argument.access = kernel::Access::ReadWrite;
}

Value KernelAssembler::scratch(MemRefType type) {
  OpBuilder::InsertionGuard guard(inner);
  inner.setInsertionPointToStart(&function.getBody().front());
  return kernel::ScratchOp::create(inner, function.getLoc(), type);
}

kernel::RowsOp KernelAssembler::rows(Location loc, const RowDomain &domain,
                                     ArrayRef<RowInput> inputs, ArrayRef<Place> outputs,
                                     ArrayRef<Value> lookups, Body body) {
  SmallVector<Value> inputMemory, outputMemory;
  SmallVector<AffineMap> maps;
  unsigned dims = 3 + lookups.size();
  SmallVector<Type> types;
  for (const RowInput &input : inputs) {
    inputMemory.push_back(input.place.memory);
    maps.push_back(AffineMap::get(dims, 0, input.place.indices, loc.getContext()));
    types.push_back(input.type);
  }
  for (const Place &output : outputs) {
    outputMemory.push_back(output.memory);
    maps.push_back(AffineMap::get(dims, 0, output.indices, loc.getContext()));
  }
  auto op = kernel::RowsOp::create(inner, loc, domain.block, inputMemory, outputMemory, lookups,
                                   domain.map, domain.extent, inner.getAffineMapArrayAttr(maps),
                                   domain.once, DenseI64ArrayAttr());
  OpBuilder::InsertionGuard guard(inner);
  Block *block =
      inner.createBlock(&op.getBody(), {}, types, SmallVector<Location>(types.size(), loc));
  SmallVector<Value> results = body(inner, loc, block->getArguments());
  kernel::YieldOp::create(inner, loc, results);
  return op;
}

Value KernelAssembler::enterGrid(Location loc) {
  OperationState state(loc, kernel::GridOp::getOperationName());
  Region *body = state.addRegion();
  body->push_back(new Block());
  body->addArgument(inner.getIndexType(), loc);
  auto grid = cast<kernel::GridOp>(inner.create(state));
  inner.setInsertionPointToEnd(&grid.getBody().front());
  kernel::EndOp::create(inner, loc);
  inner.setInsertionPoint(&grid.getBody().front().back());
  return grid.getBlockIndex();
}

void KernelAssembler::fuseRows() {
  passes::fuseRows(function);
  llvm::DenseMap<Value, kernel::Access> used;
  function.walk([&](Operation *op) {
    kernel::forEachAccess(op, [&](Value memory, kernel::Access access) {
      auto [it, isNew] = used.try_emplace(memory, access);
      if (it->second != access)
        it->second = kernel::Access::ReadWrite;
    });
  });
  for (auto &[memory, argument] : arguments)
    argument.access = used.lookup(argument.value);
}

kernel::FuncOp KernelAssembler::finish(ModuleOp module, StringRef nodes, AffineMap grid,
                                       int64_t threads) {
  if (threads)
    fuseRows();
  SmallVector<Type> types;
  SmallVector<Attribute> attributes;
  Builder b(module.getContext());
  for (auto &[memory, argument] : arguments) {
    types.push_back(argument.value.getType());
    attributes.push_back(b.getDictionaryAttr(b.getNamedAttr(
        "kernel.access", kernel::AccessAttr::get(module.getContext(), argument.access))));
  }
  function.setFunctionTypeAttr(TypeAttr::get(b.getFunctionType(types, {})));
  function.setArgAttrsAttr(b.getArrayAttr(attributes));
  function.setGridAttr(AffineMapAttr::get(grid));
  if (threads)
    function.setLaunchAttr(kernel::LaunchAttr::get(module.getContext(), threads,
                                                   kernel::sharedBytes(function),
                                                   /*producers=*/0));

  // Equal bodies give equal text: names and locations are not printed yet.
  std::string text;
  llvm::raw_string_ostream stream(text);
  function.print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false));
  auto digest = llvm::xxh3_128bits(
      ArrayRef<uint8_t>(reinterpret_cast<const uint8_t *>(text.data()), text.size()));
  std::string hash = llvm::utohexstr(digest.high64, /*LowerCase=*/true, 16) +
                     llvm::utohexstr(digest.low64, /*LowerCase=*/true, 16);
  std::string name = (nodes + "_" + hash.substr(0, 8)).str();
  if (auto existing = module.lookupSymbol<kernel::FuncOp>(name)) {
    function.erase();
    function = nullptr;
    return existing;
  }
  function.setSymName(name);
  function->setAttr("hash", b.getStringAttr(hash));
  module.push_back(function);
  return function;
}

SmallVector<Value> KernelAssembler::launchOperands() const {
  SmallVector<Value> operands;
  for (auto &[memory, argument] : arguments)
    operands.push_back(memory);
  return operands;
}

} // namespace gemma::passes
