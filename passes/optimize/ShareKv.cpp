// gemma-share-kv
//
// Store the values alone where a layer's keys are proven to be rope(w ⊙ V).
//
// Input:  L1, as import makes it: `@step` on tensors.
// Output: the same; the caches of the layers for which the proof holds have `lanes [v]`, their
//         appends no key, their attentions the `keys` from which a key is computed when it is used.
//
//   %kn = gemma.rmsnorm %raw, @k_norm {eps}            %v = gemma.rmsnorm_unit %raw {eps}
//   %v  = gemma.rmsnorm_unit %raw {eps}           ->   %c1 = gemma.cache_append %c, %v
//   %k  = gemma.rope %kn {theta, rot, ...}             gemma.gqa %q, %c1 {keys =
//   %c1 = gemma.cache_append %c, %k, %v                  #gemma.keys_of_values<norm = @k_norm,
//   gemma.gqa %q, %c1                                      theta, rot, ...>}
//
// The proof is def-use alone: rmsnorm(raw, w) = w ⊙ raw / rms(raw) = w ⊙ rmsnorm_unit(raw), if both
// norms read the same value with the same eps; the rotation reads the batch of the append, so that
// a key's angle is that of the position at which the cache holds it. Every append to a cache must
// prove the same, as its readers see what all of them stored. A cache without the proof is left
// alone.
//
// Before gemma-make-variants, because all variants share the caches. Rounding moves from K to
// w ⊙ V, hence a bound of its own under --verify-numerics (declaredBound()).
#include "passes/Passes.h"

#define DEBUG_TYPE "gemma-share-kv"

namespace gemma::passes {
#define GEN_PASS_DEF_SHAREKV
#include "passes/Passes.h.inc"
} // namespace gemma::passes

using namespace mlir;
using namespace gemma;

namespace {
/// Everything in the module that touches one cache.
struct CacheUses {
  SmallVector<ir::CacheAppendOp> appends;
  SmallVector<ir::GqaOp> readers;
};
} // namespace

static llvm::StringMap<CacheUses> collectUses(ModuleOp module) {
  llvm::StringMap<CacheUses> uses;
  module.walk([&](Operation *op) {
    if (auto append = dyn_cast<ir::CacheAppendOp>(op))
      uses[append.getCache().getType().getSymbol().getValue()].appends.push_back(append);
    else if (auto gqa = dyn_cast<ir::GqaOp>(op))
      uses[gqa.getCache().getType().getSymbol().getValue()].readers.push_back(gqa);
  });
  return uses;
}

/// How the keys of this append follow from its values; null if that is not proven.
static ir::KeysOfValuesAttr proveKeys(ir::CacheAppendOp append) {
  auto rope = append.getK() ? append.getK().getDefiningOp<ir::RopeOp>() : ir::RopeOp();
  auto norm = rope ? rope.getX().getDefiningOp<ir::RmsNormOp>() : ir::RmsNormOp();
  auto unit = append.getV().getDefiningOp<ir::RmsNormUnitOp>();
  if (!norm || !unit || norm.getX() != unit.getX() ||
      !norm.getEps().bitwiseIsEqual(unit.getEps()) || rope.getBatch() != append.getBatch() ||
      rope.getActive() == 0)
    return {};
  return ir::KeysOfValuesAttr::get(append.getContext(), norm.getWeightAttr(), rope.getThetaAttr(),
                                   static_cast<int64_t>(rope.getRot()),
                                   static_cast<int64_t>(rope.getDenom()),
                                   static_cast<int64_t>(rope.getActive()));
}

/// What all appends to a cache prove; null if they do not, or not the same.
static ir::KeysOfValuesAttr proveKeys(const CacheUses &uses) {
  ir::KeysOfValuesAttr common;
  for (ir::CacheAppendOp append : uses.appends) {
    ir::KeysOfValuesAttr keys = proveKeys(append);
    if (!keys || (common && keys != common))
      return {};
    common = keys;
  }
  return common;
}

/// Removes the ops that made keys, as far as nobody else reads them.
static void eraseKeys(Value keys) {
  while (keys) {
    Operation *producer = keys.getDefiningOp();
    if (!isa_and_nonnull<ir::RopeOp, ir::RmsNormOp>(producer) || !producer->use_empty())
      return;
    keys = producer->getOperand(0);
    producer->erase();
  }
}

namespace {
struct ShareKvPass : gemma::passes::impl::ShareKvBase<ShareKvPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    llvm::StringMap<CacheUses> uses = collectUses(module);
    for (auto cache : module.getOps<program::CacheOp>()) {
      CacheUses &use = uses[cache.getSymName()];
      ir::KeysOfValuesAttr keys = proveKeys(use);
      if (!keys)
        continue;
      cache.setLanes(program::CacheLanes::Values);
      for (ir::CacheAppendOp append : use.appends) {
        Value stored = append.getK();
        append.getKMutable().clear();
        eraseKeys(stored);
      }
      for (ir::GqaOp reader : use.readers)
        reader.setKeysAttr(keys);
    }
  }
};
} // namespace
