// Lowers one gemma.group to one kernel and one launch.
#pragma once

#include "passes/VariantPlan.h"
#include "passes/lower/KernelAssembler.h"

#include "dialect/gemma/Gemma.h"

namespace gemma::passes {

/// The program-level memory of one variant: made on first use.
class VariantMemory {
public:
  VariantMemory(mlir::ModuleOp module, program::VariantOp variant, PlanLimits limits)
      : module(module), builder(variant.getContext()), limits(limits) {
    builder.setInsertionPointToEnd(&variant.getBody().front());
  }

  mlir::Value weight(llvm::StringRef symbol);
  mlir::Value weightScales(llvm::StringRef symbol);
  mlir::Value cacheLane(llvm::StringRef symbol, llvm::StringRef lane);
  mlir::Value tableLane(program::TableOp table, llvm::StringRef lane);
  mlir::Value input(llvm::StringRef name);
  /// A buffer, or the step's output of this name.
  mlir::Value buffer(mlir::Location loc, mlir::MemRefType type, kernel::Extent extent,
                     llvm::StringRef output = {});
  /// Memory for what only the blocks of one launch use; `extent` of a dynamic first dimension.
  mlir::Value workspace(mlir::Location loc, mlir::MemRefType type,
                        std::optional<kernel::Extent> extent);
  mlir::Value tickets(int64_t count);

  mlir::ModuleOp module;
  mlir::OpBuilder builder; ///< at the end of the variant
  PlanLimits limits;
  /// Memory and extent of the tensors that groups made.
  struct Tensor {
    mlir::Value memory;
    kernel::Extent extent;
  };
  llvm::DenseMap<mlir::Value, Tensor> tensors;
  /// Keys of the largest entries of logits (kernel.contract's `best`), by the group's result.
  llvm::DenseMap<mlir::Value, mlir::Value> best;

private:
  mlir::Value ref(llvm::StringRef symbol, llvm::StringRef lane, mlir::MemRefType type);
  llvm::StringMap<mlir::Value> made;
};

/// A tensor traced through slices and reshapes to the tensor that owns the memory.
struct TensorView {
  mlir::Value root;
  int64_t offset = 0; ///< elements from the start of the root's row
};
TensorView traceView(mlir::Value tensor);

/// The size of a step that `extent` names.
mlir::AffineExpr sizeOf(mlir::Builder &b, kernel::Extent extent);

/// What the row nodes of a group share: where the group's tensors lie, and which rows it covers.
class GroupLowering {
public:
  GroupLowering(ir::GroupOp group, VariantMemory &memory, const VariantPlan &plan);

  mlir::LogicalResult run();

private:
  mlir::LogicalResult lowerRowsGroup();
  mlir::LogicalResult lowerContraction(mlir::Operation *contraction);
  mlir::LogicalResult lowerAttention(ir::GqaOp gqa);
  /// Codes of the rows of `x`, their scales and starts, as arguments or
  /// scratch of this kernel. Hoisted rows are quantised in it, others by a launch before it.
  struct Codes {
    mlir::Value codes, scales, starts;
  };
  Codes quantise(mlir::Value x, program::WeightOp weight);
  /// The nodes of the group that the queries come from; none if not all are made for it alone.
  llvm::SmallPtrSet<mlir::Operation *, 8> queryNodes(ir::GqaOp gqa);
  /// One row node -> one kernel.rows.
  mlir::LogicalResult lowerRowNode(mlir::Operation *op);
  void lowerEmbed(ir::EmbedOp op);
  mlir::LogicalResult lowerQuantisedEmbed(ir::EmbedOp op, program::WeightOp weight);
  void lowerSelectRows(ir::SelectRowsOp op);
  void lowerRope(mlir::Operation *op, mlir::Value x, double theta, int64_t rot, int64_t denom,
                 int64_t active);
  void lowerAppend(ir::CacheAppendOp op);
  void lowerTopK(ir::TopKOp op);
  /// Memory for the largest entries of a head's row tiles, if somebody wants the largest of a row.
  mlir::Value bestOf(mlir::Operation *head, int64_t rowTiles);

  bool onHost() const { return plan.family == Family::Host; }
  kernel::Extent extentOf(mlir::Value tensor);
  Place placeOf(mlir::Value tensor);
  RowInput rowInput(mlir::Value tensor);
  RowInput rowSlice(mlir::Value tensor, int64_t offset, int64_t count);
  RowInput vectorInput(llvm::StringRef weight, int64_t count);
  RowInput scalarInput(llvm::StringRef weight);
  /// The memory of a tensor that another launch made, as a matrix of the tensor's shape.
  mlir::Value matrixOf(mlir::Value tensor);
  /// Decides where a result lies and remembers it.
  Place resultPlace(mlir::Value result);
  /// The rows of the group, for a node over `heads` heads (1: plain rows).
  RowDomain domain(mlir::Value tensor);
  /// The type that holds a group's result in memory: the numerics' type of its kind.
  mlir::MemRefType storageType(mlir::Value result);
  /// The memory of a yielded result.
  mlir::Value yieldedMemory(mlir::Value result, kernel::Extent extent);
  bool isYielded(mlir::Value result);
  void launch(kernel::FuncOp function);
  std::string nodeNames(llvm::ArrayRef<mlir::Operation *> ops);

  ir::GroupOp group;
  VariantMemory &memory;
  const VariantPlan &plan;
  ir::NumericsAttr numerics;
  KernelAssembler assembler;
  mlir::OpBuilder expressions; ///< for affine expressions
  /// hoisted: all rows, outside the grid; row: one row a block; head: one KV head of one row a
  /// block.
  enum class Blocks { Hoisted, Row, Head } blocks = Blocks::Row;
  mlir::Value block;
  int64_t kvHeads = 1, groupHeads = 1; ///< Blocks::Head: KV heads, query heads of one
  int64_t splits = 1;                  ///< Blocks::Head: blocks of a KV head
  int64_t headParts = 1;               ///< Blocks::Head: blocks that share its query heads
  bool ofQueries = false; ///< the node at hand makes queries, of which every split has a copy
  /// Activations that a GPU contraction prepares in scratch, laid out like its weight.
  mlir::Value prepared;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, kernel::Extent> extents;
};

} // namespace gemma::passes
