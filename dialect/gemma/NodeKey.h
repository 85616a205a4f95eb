// Spec keys as locations: which node of the spec page an op computes.
#pragma once

#include "mlir/IR/Location.h"
#include "llvm/ADT/StringRef.h"

namespace gemma::ir {

/// A location that names a node by its spec key, "layers[3].attn.qk_norm". A node that takes two
/// ops (q and k) tells them apart by `part`.
mlir::Location nodeLoc(mlir::MLIRContext &context, llvm::StringRef key, llvm::StringRef part = "");

/// The spec key of an op's location, "" if it has none. A fused location gives the key of its first
/// part that has one.
llvm::StringRef nodeKey(mlir::Location loc);
/// The part that nodeLoc was given.
llvm::StringRef nodePart(mlir::Location loc);

} // namespace gemma::ir
