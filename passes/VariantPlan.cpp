#include "passes/VariantPlan.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;

namespace gemma::passes {

StringRef familyName(Family family) { return family == Family::Host ? "host" : "cuda"; }

std::optional<Family> familyOf(StringRef name) {
  for (Family family : {Family::Host, Family::Cuda})
    if (familyName(family) == name)
      return family;
  return std::nullopt;
}

void VariantPlan::attach(func::FuncOp function) const {
  Builder b(function.getContext());
  function->setAttr(attributeName,
                    b.getDictionaryAttr({
                        b.getNamedAttr("name", b.getStringAttr(name)),
                        b.getNamedAttr("family", b.getStringAttr(familyName(family))),
                        b.getNamedAttr("condition", IntegerSetAttr::get(condition)),
                        b.getNamedAttr("hoist_rows", b.getBoolAttr(hoistRows)),
                        b.getNamedAttr("fuse_attention", b.getBoolAttr(fuseAttention)),
                        b.getNamedAttr("fuse_rows", b.getBoolAttr(fuseRows)),
                        b.getNamedAttr("token_tile", b.getI64IntegerAttr(tokenTile)),
                        b.getNamedAttr("split_work", b.getBoolAttr(splitWork)),
                        b.getNamedAttr("max_tokens", b.getI64IntegerAttr(maxTokens)),
                        b.getNamedAttr("max_sequences", b.getI64IntegerAttr(maxSequences)),
                        b.getNamedAttr("min_sequences", b.getI64IntegerAttr(minSequences)),
                        b.getNamedAttr("max_logit_rows", b.getI64IntegerAttr(maxLogitRows)),
                    }));
}

std::optional<VariantPlan> VariantPlan::of(func::FuncOp function) {
  auto dict = function->getAttrOfType<DictionaryAttr>(attributeName);
  if (!dict)
    return std::nullopt;
  auto integer = [&](StringRef key) { return dict.getAs<IntegerAttr>(key).getInt(); };
  auto flag = [&](StringRef key) { return dict.getAs<BoolAttr>(key).getValue(); };
  VariantPlan plan;
  plan.name = dict.getAs<StringAttr>("name").str();
  plan.family = familyOf(dict.getAs<StringAttr>("family").getValue()).value_or(Family::Host);
  plan.condition = dict.getAs<IntegerSetAttr>("condition").getValue();
  plan.hoistRows = flag("hoist_rows");
  plan.fuseAttention = flag("fuse_attention");
  plan.fuseRows = flag("fuse_rows");
  plan.tokenTile = integer("token_tile");
  plan.splitWork = flag("split_work");
  plan.maxTokens = integer("max_tokens");
  plan.maxSequences = integer("max_sequences");
  plan.minSequences = integer("min_sequences");
  plan.maxLogitRows = integer("max_logit_rows");
  return plan;
}

void PlanLimits::attach(ModuleOp module) const {
  Builder b(module.getContext());
  module->setAttr(attributeName,
                  b.getDictionaryAttr({
                      b.getNamedAttr("max_context", b.getI64IntegerAttr(maxContext)),
                      b.getNamedAttr("max_batch", b.getI64IntegerAttr(maxBatch)),
                      b.getNamedAttr("max_chunk", b.getI64IntegerAttr(maxChunk)),
                      b.getNamedAttr("max_logit_rows", b.getI64IntegerAttr(maxLogitRows)),
                  }));
}

std::optional<PlanLimits> PlanLimits::of(ModuleOp module) {
  auto dict = module->getAttrOfType<DictionaryAttr>(attributeName);
  if (!dict)
    return std::nullopt;
  auto integer = [&](StringRef key) { return dict.getAs<IntegerAttr>(key).getInt(); };
  return PlanLimits{integer("max_context"), integer("max_batch"), integer("max_chunk"),
                    integer("max_logit_rows")};
}

} // namespace gemma::passes
