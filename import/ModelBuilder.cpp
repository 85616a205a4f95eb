#include "import/ModelBuilder.h"

#include "dialect/gemma/NodeKey.h"

#include <cmath>

using namespace mlir;

namespace gemma {

Value ModelBuilder::embed(Value tokens) {
  tokenCount = tensor::DimOp::create(builder, at("tokens"), tokens, 0);
  auto mul = builder.getF64FloatAttr(std::sqrt(double(config.hidden)));
  return ir::EmbedOp::create(builder, at("embed"), rows({config.hidden}), tokens,
                             symbol("embed_tokens"), mul);
}

Value ModelBuilder::decoderLayer(int64_t index, Value x, Value batch, Value &cache) {
  layer = index;
  const AttentionConfig &a = attentionOfLayer();
  int64_t hidden = config.hidden, intermediate = config.intermediate;

  Value n = rmsnorm("input_norm", x, "input_norm"); // [T, H]
  int64_t qkvHeads = config.heads + (a.valuesAreKeys ? 1 : 2) * a.kvHeads;
  Value qkv = linear("attn.qkv_proj", n, "qkv", qkvHeads * a.headDim); // [T, (h + 2c) D]
  Value core = attention(qkv, batch, cache);                           // [T, h D]
  Value o = linear("attn.o_proj", core, "o", hidden);                  // [T, H]
  Value mixed = rmsnorm("post_mix_norm", o, "post_mix_norm");          // [T, H]
  auto one = builder.getF64FloatAttr(1.0);
  Value r = ir::ResidualOp::create(builder, at("attn_residual"), x.getType(), x, mixed, one,
                                   FlatSymbolRefAttr()); // [T, H]

  Value m = rmsnorm("post_attn_norm", r, "post_attn_norm");             // [T, H]
  Value gateUp = linear("mlp.gate_up", m, "gate_up", 2 * intermediate); // [T, 2 I]
  Value act = ir::GeluMulOp::create(builder, at("mlp.act"), rows({intermediate}), gateUp); // [T, I]
  Value down = linear("mlp.down", act, "down", hidden);                                    // [T, H]
  Value f = rmsnorm("post_ffn_norm", down, "post_ffn_norm");                               // [T, H]
  Value y = ir::ResidualOp::create(builder, at("mlp_residual"), r.getType(), r, f, one,
                                   symbol("layer_scalar")); // [T, H]
  layer = -1;
  return y;
}

Value ModelBuilder::attention(Value qkv, Value batch, Value &cache) {
  const AttentionConfig &a = attentionOfLayer();
  int64_t kFirst = config.heads * a.headDim;
  int64_t vFirst = kFirst + a.kvHeads * a.headDim;

  Value q = splitHeads(qkv, 0, config.heads, "q");   // [T, h, D]
  Value k = splitHeads(qkv, kFirst, a.kvHeads, "k"); // [T, c, D]
  // Where values are keys, V comes from the raw projection: before k_norm and rope.
  Value v = a.valuesAreKeys ? k : splitHeads(qkv, vFirst, a.kvHeads, "v"); // [T, c, D]

  q = rmsnorm("attn.qk_norm", q, "q_norm", "q"); // [T, h, D]
  k = rmsnorm("attn.qk_norm", k, "k_norm", "k"); // [T, c, D]
  v = ir::RmsNormUnitOp::create(builder, at("attn.v_norm"), v.getType(), v,
                                builder.getF64FloatAttr(config.rmsEps)); // [T, c, D]
  q = rope(q, batch, "q");                                               // [T, h, D]
  k = rope(k, batch, "k");                                               // [T, c, D]

  cache =
      ir::CacheAppendOp::create(builder, at("attn.append"), cache.getType(), cache, k, v, batch);
  auto window = a.window ? builder.getI64IntegerAttr(a.window) : IntegerAttr();
  Value o = ir::GqaOp::create(builder, at("attn.core"), q.getType(), q, cache, batch,
                              builder.getI64IntegerAttr(a.kvHeads),
                              builder.getF64FloatAttr(config.attentionScale), window,
                              ir::KeysOfValuesAttr()); // [T, h, D]
  return joinHeads(o);                                 // [T, h D]
}

Value ModelBuilder::head(Value x, Value logitRows) {
  // Rows are chosen before the norm: it works row by row, and few rows are wanted.
  auto selected = ir::SelectRowsOp::create(builder, at("select_rows"), x.getType(), x, logitRows);
  Value n = rmsnorm("final_norm", selected, "final_norm"); // [R, H]
  auto logits = RankedTensorType::get({ShapedType::kDynamic, config.vocab}, numerics.getLogits());
  auto cap = config.softcap ? builder.getF64FloatAttr(*config.softcap) : FloatAttr();
  return ir::LmHeadOp::create(builder, at("lm_head"), logits, n,
                              symbol(config.tiedHead ? "embed_tokens" : "lm_head"),
                              builder.getF64FloatAttr(1.0), cap); // [R, V]
}

std::pair<Value, Value> ModelBuilder::top(Value logits, int64_t k) {
  auto values = RankedTensorType::get({ShapedType::kDynamic, k}, numerics.getLogits());
  auto ids = RankedTensorType::get({ShapedType::kDynamic, k}, builder.getI32Type());
  auto best =
      ir::TopKOp::create(builder, at("top_k"), values, ids, logits, builder.getI64IntegerAttr(k));
  return {best.getValues(), best.getIds()}; // [R, k]
}

//===----------------------------------------------------------------------===//
// One op each
//===----------------------------------------------------------------------===//

Value ModelBuilder::rmsnorm(StringRef node, Value x, StringRef weight, StringRef part) {
  return ir::RmsNormOp::create(builder, at(node, part), x.getType(), x, symbol(weight),
                               builder.getF64FloatAttr(config.rmsEps));
}

Value ModelBuilder::linear(StringRef node, Value x, StringRef weight, int64_t n) {
  return ir::LinearOp::create(builder, at(node), rows({n}), x, symbol(weight));
}

Value ModelBuilder::rope(Value x, Value batch, StringRef part) {
  const RopeConfig &r = attentionOfLayer().rope;
  return ir::RopeOp::create(builder, at("attn.rope", part), x.getType(), x, batch,
                            builder.getF64FloatAttr(r.theta), builder.getI64IntegerAttr(r.rotary),
                            builder.getI64IntegerAttr(r.denominator),
                            builder.getI64IntegerAttr(r.active));
}

Value ModelBuilder::splitHeads(Value x, int64_t first, int64_t heads, StringRef part) {
  int64_t dim = attentionOfLayer().headDim;
  Location loc = at("attn.split_heads", part);
  auto index = [&](int64_t value) { return OpFoldResult(builder.getIndexAttr(value)); };
  Value columns = tensor::ExtractSliceOp::create(
      builder, loc, rows({heads * dim}), x, ArrayRef{index(0), index(first)},
      ArrayRef{OpFoldResult(tokenCount), index(heads * dim)}, ArrayRef{index(1), index(1)});
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  return tensor::ExpandShapeOp::create(
      builder, loc, rows({heads, dim}), columns, groups,
      ArrayRef{OpFoldResult(tokenCount), index(heads), index(dim)});
}

Value ModelBuilder::joinHeads(Value x) {
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
  return tensor::CollapseShapeOp::create(builder, at("attn.join_heads"), x, groups);
}

Location ModelBuilder::at(StringRef node, StringRef part) {
  std::string key = layer < 0 ? node.str() : "layers[" + std::to_string(layer) + "]." + node.str();
  return ir::nodeLoc(*builder.getContext(), key, part);
}

FlatSymbolRefAttr ModelBuilder::symbol(StringRef weight) {
  std::string name = layer < 0 ? weight.str() : "l" + std::to_string(layer) + "." + weight.str();
  return FlatSymbolRefAttr::get(builder.getContext(), name);
}

RankedTensorType ModelBuilder::rows(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> dims = {ShapedType::kDynamic};
  dims.append(shape.begin(), shape.end());
  return RankedTensorType::get(dims, numerics.getAccumulate());
}

} // namespace gemma
