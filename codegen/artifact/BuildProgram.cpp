#include "codegen/artifact/BuildProgram.h"

#include "codegen/artifact/ElementType.h"
#include "dialect/kernel/Kernel.h"
#include "dialect/program/Layout.h"

#include "mlir/IR/AffineExpr.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace gemma::codegen {

static ScalarType scalarType(Type type) {
  std::optional<ScalarType> found = scalarTypeOf(type);
  assert(found && "an element type that the runtime does not know");
  return found.value_or(ScalarType::I32);
}

static void appendTerms(AffineExpr expr, SizeExpr &out) {
  using Op = SizeExpr::Op;
  switch (expr.getKind()) {
  case AffineExprKind::Constant:
    out.terms.push_back({Op::Constant, cast<AffineConstantExpr>(expr).getValue()});
    return;
  case AffineExprKind::SymbolId:
    out.terms.push_back({Op::Size, int64_t(cast<AffineSymbolExpr>(expr).getPosition())});
    return;
  case AffineExprKind::DimId:
    llvm_unreachable("size expressions have no dimensions");
  default:
    break;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  appendTerms(binary.getLHS(), out);
  appendTerms(binary.getRHS(), out);
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    out.terms.push_back({Op::Add});
    return;
  case AffineExprKind::Mul:
    out.terms.push_back({Op::Mul});
    return;
  case AffineExprKind::FloorDiv:
    out.terms.push_back({Op::FloorDiv});
    return;
  case AffineExprKind::CeilDiv:
    out.terms.push_back({Op::CeilDiv});
    return;
  default:
    out.terms.push_back({Op::Mod});
  }
}

static SizeExpr sizeExpr(AffineExpr expr) {
  SizeExpr out;
  appendTerms(expr, out);
  return out;
}

/// The spec keys that a location names, in order.
static std::vector<std::string> specKeys(Location loc) {
  llvm::SetVector<StringRef> keys;
  loc->walk([&](Location inner) {
    auto named = dyn_cast<NameLoc>(inner);
    if (!named)
      return WalkResult::advance();
    keys.insert(named.getName().getValue());
    return WalkResult::skip(); // what is inside names the part of a node
  });
  std::vector<std::string> out;
  for (StringRef key : keys)
    out.push_back(key.str());
  return out;
}

namespace {
/// Builds the lists of one program; indices of symbols are those of the lists.
class ProgramWriter {
public:
  ProgramWriter(ModuleOp module, Program &program) : module(module), program(program) {}

  Status run() {
    for (auto weight : module.getOps<program::WeightOp>())
      addWeight(weight);
    for (auto cache : module.getOps<program::CacheOp>())
      addCache(cache);
    for (auto table : module.getOps<program::TableOp>())
      addTable(table);
    for (auto kernel : module.getOps<kernel::FuncOp>())
      addKernel(kernel);
    for (auto variant : module.getOps<program::VariantOp>())
      if (Status status = addVariant(variant); !status)
        return status;
    return {};
  }

private:
  void addWeight(program::WeightOp op);
  void addCache(program::CacheOp op);
  void addTable(program::TableOp op);
  void addKernel(kernel::FuncOp op);
  Status addVariant(program::VariantOp op);
  Expected<LaunchArgument> argument(Value memory);
  LaunchArgument buffer(program::BufferOp op, int64_t offset);
  void addOutput(program::OutputOp op);

  ModuleOp module;
  Program &program;
  llvm::StringMap<int64_t> indices; ///< of a symbol within its list
};
} // namespace

void ProgramWriter::addWeight(program::WeightOp op) {
  indices[op.getSymName()] = program.weights.size();
  WeightRecipe recipe;
  recipe.name = op.getSymName().str();
  for (Attribute source : op.getSources())
    recipe.sources.push_back(cast<StringAttr>(source).str());
  auto type = cast<RankedTensorType>(op.getType());
  recipe.shape.assign(type.getShape().begin(), type.getShape().end());
  recipe.storage = scalarType(type.getElementType());
  program::LayoutAttr layout = op.getLayoutAttr();
  recipe.panel = layout.getPanel();
  recipe.kpack = layout.getKpack();
  recipe.interleave = layout.getInterleave();
  auto packed = cast<MemRefType>(op.getPackedAttr().getValue());
  if (program::isQuantised(type.getElementType())) {
    recipe.group = program::kGroupColumns;
    recipe.bytes = uint64_t(program::scalesOffset(packed)) +
                   uint64_t(program::scalesType(packed).getNumElements()) * 2;
  } else {
    recipe.bytes = uint64_t(packed.getNumElements()) * byteWidth(recipe.storage);
  }
  program.weights.push_back(std::move(recipe));
}

void ProgramWriter::addCache(program::CacheOp op) {
  indices[op.getSymName()] = program.caches.size();
  program.caches.push_back({op.getSymName().str(), op.getKind() == program::CacheKind::Ring,
                            int64_t(op.getHeads()), int64_t(op.getDim()), int64_t(op.getWindow()),
                            int64_t(op.getPage()), int64_t(op.getRingPages().value_or(0)),
                            scalarType(op.getElem()), op.hasKeys()});
}

void ProgramWriter::addTable(program::TableOp op) {
  indices[op.getSymName()] = program.tables.size();
  program.tables.push_back({op.getSymName().str(), op.getTheta().convertToDouble(),
                            int64_t(op.getDenom()), int64_t(op.getActive()),
                            scalarType(op.getElem())});
}

void ProgramWriter::addKernel(kernel::FuncOp op) {
  indices[op.getSymName()] = program.kernels.size();
  KernelPlan plan;
  plan.name = op.getSymName().str();
  plan.grid = sizeExpr(op.getGrid().getResult(0));
  for (unsigned i = 0, n = op.getNumArguments(); i < n; ++i)
    plan.access.push_back(uint8_t(op.getAccess(i)));
  if (kernel::LaunchAttr launch = op.getLaunchAttr()) {
    plan.threads = uint64_t(launch.getThreads());
    plan.sharedBytes = uint64_t(launch.getShared());
    op.walk([&](kernel::AttentionOp attention) {
      plan.queryTile = int64_t(attention.getQueryTile());
      plan.keyTile = attention.getGpuTileAttr() ? attention.getGpuTileAttr().getKeys() : 0;
    });
  } else {
    plan.scratchBytes = uint64_t(op.getScratchBytes());
  }
  plan.hash = op->getAttrOfType<StringAttr>("hash").str();
  program.kernels.push_back(std::move(plan));
}

LaunchArgument ProgramWriter::buffer(program::BufferOp op, int64_t offset) {
  int64_t skipped = offset * byteWidth(scalarType(getElementTypeOrSelf(op.getMemory().getType())));
  const ProgramLimits &limits = program.limits;
  LaunchArgument out;
  out.kind = LaunchArgument::Kind::Buffer;
  out.offset = op.getOffsetAttr().getInt() + skipped;
  out.bytes = op.getLargestBytes({limits.maxChunk, limits.maxBatch, limits.maxLogitRows}) - skipped;
  return out;
}

void ProgramWriter::addOutput(program::OutputOp op) {
  for (const OutputPlan &known : program.outputs)
    if (known.name == op.getName())
      return;
  auto type = cast<MemRefType>(op.getMemory().getType());
  OutputPlan plan;
  plan.name = op.getName().str();
  plan.type = scalarType(type.getElementType());
  plan.shape.assign(type.getShape().begin() + 1, type.getShape().end());
  plan.extent = 'R';
  program.outputs.push_back(std::move(plan));
}

/// Says of what rows a buffer, or a view of one, consists.
static void describeRows(MemRefType type, std::optional<StringRef> extent, LaunchArgument &out) {
  out.type = scalarType(type.getElementType());
  out.shape = type.getShape().drop_front(extent ? 1 : 0).vec();
  out.extent = extent ? extent->front() : '1';
  out.stride = extent ? type.getStridesAndOffset().first.front() : type.getNumElements();
}

Expected<LaunchArgument> ProgramWriter::argument(Value memory) {
  auto type = cast<MemRefType>(memory.getType());
  int64_t offset = 0;
  while (auto view = memory.getDefiningOp<program::ViewOp>()) {
    offset += view.getOffset();
    memory = view.getSource();
  }
  LaunchArgument out;
  Operation *op = memory.getDefiningOp();
  if (auto placed = dyn_cast<program::BufferOp>(op)) {
    if (!placed.getOffset())
      return internalError("program: a buffer has no place in the arena");
    out = buffer(placed, offset);
    if (placed.getWorkspace()) {
      out.kind = LaunchArgument::Kind::Workspace;
      return out;
    }
    describeRows(type, placed.getExtent(), out);
    return out;
  }
  if (isa<program::TicketsOp>(op)) {
    out.kind = LaunchArgument::Kind::Tickets;
    out.bytes = uint64_t(type.getNumElements()) * 4;
    return out;
  }
  if (auto input = dyn_cast<program::InputOp>(op)) {
    out.kind = LaunchArgument::Kind::Input;
    out.name = input.getName().str();
    return out;
  }
  if (auto output = dyn_cast<program::OutputOp>(op)) {
    addOutput(output);
    out.kind = LaunchArgument::Kind::Output;
    out.name = output.getName().str();
    return out;
  }
  auto ref = cast<program::RefOp>(op);
  Operation *symbol = module.lookupSymbol(ref.getSymbol());
  out.kind = isa<program::WeightOp>(symbol)  ? LaunchArgument::Kind::Weight
             : isa<program::CacheOp>(symbol) ? LaunchArgument::Kind::Cache
                                             : LaunchArgument::Kind::Table;
  out.index = indices.lookup(ref.getSymbol());
  if (auto weight = dyn_cast<program::WeightOp>(symbol)) {
    if (ref.getLane()) // scales, which lie behind the codes
      out.offset =
          uint64_t(program::scalesOffset(cast<MemRefType>(weight.getPackedAttr().getValue())));
    return out;
  }
  out.name = ref.getLane().value_or("").str();
  return out;
}

Status ProgramWriter::addVariant(program::VariantOp op) {
  Variant variant;
  variant.name = op.getSymName().str();
  program.family = op.getTarget() == "cuda" ? DeviceFamily::Cuda : DeviceFamily::Host;
  IntegerSet set = op.getCondition();
  for (unsigned i = 0, n = set.getNumConstraints(); i < n; ++i)
    variant.conditions.push_back({sizeExpr(set.getConstraint(i)), set.isEq(i)});
  if (!op.getArena())
    return internalError("program: variant " + variant.name + " has no arena");
  variant.arenaBytes = uint64_t(op.getArenaAttr().getInt());
  for (auto launchOp : op.getBody().front().getOps<program::LaunchOp>()) {
    Launch launch;
    launch.kernel = indices.lookup(launchOp.getKernel());
    for (Value memory : launchOp.getArguments()) {
      Expected<LaunchArgument> arg = argument(memory);
      if (!arg)
        return arg.error();
      launch.arguments.push_back(std::move(*arg));
    }
    launch.nodes = specKeys(launchOp.getLoc());
    variant.launches.push_back(std::move(launch));
  }
  program.variants.push_back(std::move(variant));
  return {};
}

Status buildProgram(ModuleOp module, Program &program) {
  return ProgramWriter(module, program).run();
}

} // namespace gemma::codegen
