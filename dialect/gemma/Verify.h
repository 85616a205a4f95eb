// Checks that the verifiers of several op families share.
#pragma once

#include "dialect/gemma/Gemma.h"

namespace gemma::ir {

/// `symbol` names a program.weight of exactly this shape.
llvm::LogicalResult verifyWeight(mlir::Operation *op, mlir::SymbolTableCollection &symbols,
                                 mlir::FlatSymbolRefAttr symbol, llvm::ArrayRef<int64_t> shape);

/// The program.cache behind `type`, if it has `heads` heads of `dim`; otherwise null, and an error.
program::CacheOp verifyCache(mlir::Operation *op, mlir::SymbolTableCollection &symbols,
                             CacheType type, int64_t heads, int64_t dim);

/// The first dimensions of both types agree where they are known.
llvm::LogicalResult verifySameRows(mlir::Operation *op, mlir::Type x, mlir::Type y);

/// Both types have the same element type.
llvm::LogicalResult verifySameElement(mlir::Operation *op, mlir::Type x, mlir::Type y);

llvm::LogicalResult verifyPositive(mlir::Operation *op, llvm::StringRef name,
                                   const llvm::APFloat &value);
llvm::LogicalResult verifyFinite(mlir::Operation *op, llvm::StringRef name,
                                 const llvm::APFloat &value);

/// Size of dimension `dim` of a ranked tensor.
int64_t dimOf(mlir::Type type, unsigned dim);
/// Size of the last dimension of a ranked tensor.
int64_t columnsOf(mlir::Type type);

} // namespace gemma::ir
