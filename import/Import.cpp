#include "import/Import.h"

#include "import/ModelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace gemma {

/// Positions in one page of a cache.
static constexpr int64_t pageSize = 16;

/// The numerics with integers for weights where the options say so; null, with a diagnostic, for
/// others than there are.
static ir::NumericsAttr withIntegers(ir::NumericsAttr numerics, const ImportOptions &options) {
  MLIRContext *context = numerics.getContext();
  auto chosen = [&](std::optional<ScalarType> type, Type otherwise) -> Type {
    if (!type)
      return otherwise;
    return *type == ScalarType::I8   ? IntegerType::get(context, 8)
           : *type == ScalarType::I4 ? IntegerType::get(context, 4)
           : *type == options.dtype  ? otherwise
                                     : Type(NoneType::get(context));
  };
  Type floats = numerics.getWeights();
  Type matrices = chosen(options.matrices, floats), table = chosen(options.table, floats);
  if (matrices == floats && table == floats)
    return numerics;
  Type codes = IntegerType::get(context, options.codes == ScalarType::I16 ? 16 : 8);
  return ir::NumericsAttr::getChecked(
      [&] { return emitError(UnknownLoc::get(context)) << "cannot import: "; }, context, matrices,
      numerics.getActivations(), numerics.getAccumulate(), numerics.getResidual(), numerics.getKv(),
      numerics.getLogits(), table == matrices ? Type() : table, codes);
}

/// The numerics with another type of caches where the options say so; null, with a diagnostic, for
/// one that there is not.
static ir::NumericsAttr withCaches(ir::NumericsAttr numerics, const ImportOptions &options) {
  MLIRContext *context = numerics.getContext();
  if (!options.kv || options.kv == options.dtype)
    return numerics;
  if (options.dtype == ScalarType::F64 ||
      (options.kv != ScalarType::F32 && options.kv != ScalarType::BF16 &&
       options.kv != ScalarType::I8)) {
    emitError(UnknownLoc::get(context)) << "cannot import with caches of " << name(*options.kv)
                                        << " and dtype " << name(options.dtype);
    return nullptr;
  }
  Type kv = options.kv == ScalarType::F32    ? Type(Float32Type::get(context))
            : options.kv == ScalarType::BF16 ? Type(BFloat16Type::get(context))
                                             : Type(IntegerType::get(context, 8));
  return ir::NumericsAttr::get(context, numerics.getWeights(), numerics.getActivations(),
                               numerics.getAccumulate(), numerics.getResidual(), kv,
                               numerics.getLogits(), numerics.getEmbedding(), numerics.getCodes());
}

/// Null, with a diagnostic, for a type that programs are not made of.
static ir::NumericsAttr floatsOf(MLIRContext &context, const ImportOptions &options) {
  Type f64 = Float64Type::get(&context), f32 = Float32Type::get(&context);
  Type bf16 = BFloat16Type::get(&context);
  switch (options.dtype) {
  case ScalarType::F64:
    return ir::NumericsAttr::get(&context, f64, f64, f64, f64, f64, f64, {}, {});
  case ScalarType::F32:
    return ir::NumericsAttr::get(&context, f32, f32, f32, f32, f32, f32, {}, {});
  case ScalarType::BF16:
    return ir::NumericsAttr::get(&context, bf16, options.narrowActivations ? bf16 : f32, f32, f32,
                                 bf16, f32, {}, {});
  default:
    emitError(UnknownLoc::get(&context))
        << "cannot import with dtype " << name(options.dtype) << ", expected f64, f32 or bf16";
    return nullptr;
  }
}

namespace {
/// Declares the weights and caches of a model at the insertion point.
class SymbolBuilder {
public:
  SymbolBuilder(OpBuilder &builder, const ModelConfig &config, ir::NumericsAttr numerics)
      : builder(builder), config(config), numerics(numerics) {}

  void weights() {
    matrix("embed_tokens", config.vocab, config.hidden, {"embed_tokens"}, numerics.getTableType());
    for (int64_t i = 0; i < config.layers(); ++i)
      layerWeights(i);
    vector("final_norm", config.hidden, "norm.weight");
    if (!config.tiedHead)
      matrix("lm_head", config.vocab, config.hidden, {"lm_head"}, numerics.getTableType());
  }

  void caches() {
    for (int64_t i = 0; i < config.layers(); ++i) {
      const AttentionConfig &a = config.attention(config.layerKinds[size_t(i)]);
      // Only a window lets old positions be overwritten.
      auto kind = a.window ? program::CacheKind::Ring : program::CacheKind::Paged;
      program::CacheOp::create(builder, builder.getUnknownLoc(), "c" + std::to_string(i), kind,
                               uint64_t(a.kvHeads), uint64_t(a.headDim), numerics.getKv(),
                               uint64_t(a.window), uint64_t(pageSize), IntegerAttr());
    }
  }

private:
  void layerWeights(int64_t i) {
    const AttentionConfig &a = config.attention(config.layerKinds[size_t(i)]);
    int64_t hidden = config.hidden, intermediate = config.intermediate;
    int64_t q = config.heads * a.headDim, kv = a.kvHeads * a.headDim;
    std::string to = "l" + std::to_string(i) + ".", from = "layers." + std::to_string(i) + ".";
    std::string attn = from + "self_attn.", mlp = from + "mlp.";

    vector(to + "input_norm", hidden, from + "input_layernorm.weight");
    if (a.valuesAreKeys)
      matrix(to + "qkv", q + kv, hidden, {attn + "q_proj", attn + "k_proj"});
    else
      matrix(to + "qkv", q + 2 * kv, hidden, {attn + "q_proj", attn + "k_proj", attn + "v_proj"});
    vector(to + "q_norm", a.headDim, attn + "q_norm.weight");
    vector(to + "k_norm", a.headDim, attn + "k_norm.weight");
    matrix(to + "o", hidden, q, {attn + "o_proj"});
    vector(to + "post_mix_norm", hidden, from + "post_attention_layernorm.weight");
    vector(to + "post_attn_norm", hidden, from + "pre_feedforward_layernorm.weight");
    matrix(to + "gate_up", 2 * intermediate, hidden, {mlp + "gate_proj", mlp + "up_proj"});
    matrix(to + "down", hidden, intermediate, {mlp + "down_proj"});
    vector(to + "post_ffn_norm", hidden, from + "post_feedforward_layernorm.weight");
    vector(to + "layer_scalar", 1, from + "layer_scalar");
  }

  /// [n, k], the source matrices (names without ".weight") one below the other.
  void matrix(const std::string &symbol, int64_t n, int64_t k, std::vector<std::string> sources,
              Type element = {}) {
    for (std::string &source : sources)
      source += ".weight";
    declare(symbol, RankedTensorType::get({n, k}, element ? element : numerics.getWeights()),
            sources);
  }
  /// Vectors are small and enter elementwise arithmetic: they have the accumulators' type.
  void vector(const std::string &symbol, int64_t n, const std::string &source) {
    declare(symbol, RankedTensorType::get({n}, numerics.getAccumulate()), {source});
  }
  void declare(const std::string &symbol, RankedTensorType type,
               const std::vector<std::string> &sources) {
    SmallVector<StringRef> names(sources.begin(), sources.end());
    program::WeightOp::create(builder, builder.getUnknownLoc(), symbol, type,
                              builder.getStrArrayAttr(names), program::LayoutAttr(), TypeAttr());
  }

  OpBuilder &builder;
  const ModelConfig &config;
  ir::NumericsAttr numerics;
};
} // namespace

/// @step of the model; its body is made by ModelBuilder.
static void buildStep(OpBuilder &builder, const ModelConfig &config, ir::NumericsAttr numerics,
                      int64_t top) {
  MLIRContext *context = builder.getContext();
  auto ids = RankedTensorType::get({ShapedType::kDynamic}, builder.getI32Type());
  SmallVector<Type> inputs = {ids, ir::BatchType::get(context), ids};
  SmallVector<Type> results = {
      RankedTensorType::get({ShapedType::kDynamic, config.vocab}, numerics.getLogits())};
  for (int64_t i = 0; i < config.layers(); ++i) {
    auto cache = FlatSymbolRefAttr::get(context, "c" + std::to_string(i));
    inputs.push_back(ir::CacheType::get(context, cache));
    results.push_back(inputs.back());
  }
  if (top) {
    results.push_back(RankedTensorType::get({ShapedType::kDynamic, top}, numerics.getLogits()));
    results.push_back(RankedTensorType::get({ShapedType::kDynamic, top}, builder.getI32Type()));
  }
  auto step = func::FuncOp::create(builder, builder.getUnknownLoc(), "step",
                                   builder.getFunctionType(inputs, results));
  auto nameOutput = [&](size_t result, StringRef name) {
    step.setResultAttr(unsigned(result), "gemma.output", builder.getStringAttr(name));
  };
  nameOutput(0, "logits");
  if (top) {
    nameOutput(results.size() - 2, "top_values");
    nameOutput(results.size() - 1, "top_ids");
  }

  Block *body = step.addEntryBlock();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(body);
  Value tokens = body->getArgument(0), batch = body->getArgument(1);
  Value logitRows = body->getArgument(2);
  SmallVector<Value> caches(body->getArguments().drop_front(3));

  ModelBuilder model(builder, config, numerics);
  Value x = model.embed(tokens); // [T, H]
  for (int64_t i = 0; i < config.layers(); ++i)
    x = model.decoderLayer(i, x, batch, caches[size_t(i)]); // [T, H]
  SmallVector<Value> outputs = {model.head(x, logitRows)};  // [R, V]
  outputs.append(caches);
  if (top) {
    auto [values, ids] = model.top(outputs.front(), top);
    outputs.append({values, ids});
  }
  func::ReturnOp::create(builder, builder.getUnknownLoc(), outputs);
}

void registerImportDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, ir::GemmaDialect, program::ProgramDialect, func::FuncDialect,
                  tensor::TensorDialect>();
}

OwningOpRef<ModuleOp> importModel(MLIRContext &context, const ModelConfig &config,
                                  const ImportOptions &options) {
  context.loadDialect<ir::GemmaDialect, program::ProgramDialect, func::FuncDialect,
                      tensor::TensorDialect>();
  ir::NumericsAttr numerics = floatsOf(context, options);
  if (numerics)
    numerics = withIntegers(numerics, options);
  if (numerics)
    numerics = withCaches(numerics, options);
  if (!numerics)
    return nullptr;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  (*module)->setAttr("gemma.numerics", numerics);
  OpBuilder builder = OpBuilder::atBlockEnd(module->getBody());
  SymbolBuilder symbols(builder, config, numerics);
  symbols.weights();
  symbols.caches();
  buildStep(builder, config, numerics, options.top);
  if (failed(verify(*module)))
    return nullptr;
  return module;
}

} // namespace gemma
