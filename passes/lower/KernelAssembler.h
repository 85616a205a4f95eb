// Assembles one kernel.func together with the operands that its launch passes.
#pragma once

#include "dialect/kernel/Kernel.h"
#include "dialect/program/Program.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace gemma::passes {

/// Where the rows of a tensor lie: index expressions of a memref over (d0 = t, d1 = h, d2 = e,
/// d3.. = lookups).
struct Place {
  mlir::Value memory; ///< a kernel argument or scratch
  llvm::SmallVector<mlir::AffineExpr> indices;
};

/// An input of a `kernel.rows`: a place, and whether the body sees a whole row or one scalar.
struct RowInput {
  Place place;
  mlir::Type type; ///< the body's argument type: tensor<N x acc> or acc
};

/// The box of rows that a `kernel.rows` runs over.
struct RowDomain {
  mlir::Value block;     ///< null outside the grid
  mlir::AffineMap map;   ///< (block)[T, B, Q, S, R] -> (tBegin, tEnd, hBegin, hEnd)
  kernel::Extent extent; ///< what t is clamped to
  bool once = false;
};

class KernelAssembler {
public:
  KernelAssembler(mlir::OpBuilder &builder, mlir::Location loc);

  /// The kernel argument that stands for this program-level memory; access adds up.
  mlir::Value argument(mlir::Value programMemory, kernel::Access access);
  /// Notes that the kernel reads this memory, if it is an argument.
  void markRead(mlir::Value kernelMemory);
  /// Worker-private memory.
  mlir::Value scratch(mlir::MemRefType type);

  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &, mlir::Location,
                                                                 mlir::ValueRange)>;
  kernel::RowsOp rows(mlir::Location loc, const RowDomain &domain, llvm::ArrayRef<RowInput> inputs,
                      llvm::ArrayRef<Place> outputs, llvm::ArrayRef<mlir::Value> lookups,
                      Body body);

  /// Builder positioned in the hoisted part, or in the grid after enterGrid().
  mlir::OpBuilder &builder() { return inner; }
  /// Starts the per-block part; gives the block's number.
  mlir::Value enterGrid(mlir::Location loc);

  /// Ends the kernel: sets the signature, a name made of `nodes` and a hash of the body, and the
  /// grid. Gives an equal kernel that the module has already, else this one. With `threads` it is a
  /// GPU kernel, whose shared memory is what its ops need.
  kernel::FuncOp finish(mlir::ModuleOp module, llvm::StringRef nodes, mlir::AffineMap grid,
                        int64_t threads = 0);
  /// Program-level memories in the order of the kernel's arguments.
  llvm::SmallVector<mlir::Value> launchOperands() const;

  /// Merges rows that are passed on (FuseRows.h), and finds anew how the kernel uses its arguments.
  /// finish() does so for GPU kernels.
  void fuseRows();

private:
  kernel::FuncOp function;
  mlir::OpBuilder inner;
  struct Argument {
    mlir::BlockArgument value;
    kernel::Access access;
  };
  llvm::MapVector<mlir::Value, Argument> arguments;
};

} // namespace gemma::passes
