#include "dialect/gemma/NodeKey.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

Location gemma::ir::nodeLoc(MLIRContext &context, StringRef key, StringRef part) {
  auto name = StringAttr::get(&context, key);
  if (part.empty())
    return NameLoc::get(name);
  return NameLoc::get(name, NameLoc::get(StringAttr::get(&context, part)));
}

/// The first NameLoc in `loc`, or null.
static NameLoc firstName(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name;
  if (auto fused = dyn_cast<FusedLoc>(loc))
    for (Location part : fused.getLocations())
      if (NameLoc name = firstName(part))
        return name;
  return nullptr;
}

StringRef gemma::ir::nodeKey(Location loc) {
  NameLoc name = firstName(loc);
  return name ? name.getName().getValue() : "";
}

StringRef gemma::ir::nodePart(Location loc) {
  NameLoc name = firstName(loc);
  auto part = name ? dyn_cast<NameLoc>(name.getChildLoc()) : nullptr;
  return part ? part.getName().getValue() : "";
}
