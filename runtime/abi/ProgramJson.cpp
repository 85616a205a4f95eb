// Writing; ProgramReader.cpp reads.
#include "runtime/abi/ProgramJson.h"

namespace gemma {

using nlohmann::json;

static const char *sizeNames[] = {"T", "B", "Q", "S", "R"};

const char *accessName(uint8_t access) {
  static const char *names[] = {"read", "write", "readwrite"};
  return access < 3 ? names[access] : "?";
}

static const char *operatorName(SizeExpr::Op op) {
  switch (op) {
  case SizeExpr::Op::Add:
    return "+";
  case SizeExpr::Op::Mul:
    return "*";
  case SizeExpr::Op::FloorDiv:
    return "floordiv";
  case SizeExpr::Op::CeilDiv:
    return "ceildiv";
  case SizeExpr::Op::Mod:
    return "mod";
  case SizeExpr::Op::Size:
  case SizeExpr::Op::Constant:
    break;
  }
  return "?";
}

json sizeExprToJson(const SizeExpr &expr) {
  json out = json::array();
  for (const SizeExpr::Term &term : expr.terms) {
    if (term.op == SizeExpr::Op::Constant)
      out.push_back(term.value);
    else if (term.op == SizeExpr::Op::Size)
      out.push_back(sizeNames[term.value]);
    else
      out.push_back(operatorName(term.op));
  }
  return out;
}

std::string sizeExprToText(const SizeExpr &expr) {
  if (!expr.wellFormed())
    return "?";
  std::vector<std::string> stack;
  for (const SizeExpr::Term &term : expr.terms) {
    if (term.op == SizeExpr::Op::Constant) {
      stack.push_back(std::to_string(term.value));
    } else if (term.op == SizeExpr::Op::Size) {
      stack.push_back(sizeNames[term.value]);
    } else {
      std::string right = std::move(stack.back());
      stack.pop_back();
      stack.back() = "(" + stack.back() + " " + operatorName(term.op) + " " + right + ")";
    }
  }
  return stack.back();
}

static std::string typeName(ScalarType type) { return std::string(name(type)); }

static json toJson(const SizeCondition &condition) {
  return {{"expr", sizeExprToJson(condition.expr)}, {"relation", condition.equality ? "eq" : "ge"}};
}

static json toJson(const RopeConfig &rope) {
  return {{"theta", rope.theta},
          {"rotary", rope.rotary},
          {"denominator", rope.denominator},
          {"active", rope.active}};
}

static json toJson(const AttentionConfig &attention) {
  return {{"kvHeads", attention.kvHeads},
          {"headDim", attention.headDim},
          {"window", attention.window},
          {"rope", toJson(attention.rope)},
          {"valuesAreKeys", attention.valuesAreKeys}};
}

static json toJson(const ModelConfig &config) {
  json kinds = json::array();
  for (LayerKind kind : config.layerKinds)
    kinds.push_back(kind == LayerKind::Sliding ? "sliding" : "global");
  json out = {{"vocab", config.vocab},
              {"hidden", config.hidden},
              {"intermediate", config.intermediate},
              {"heads", config.heads},
              {"layerKinds", std::move(kinds)},
              {"sliding", toJson(config.sliding)},
              {"global", toJson(config.global)},
              {"rmsEps", config.rmsEps},
              {"attentionScale", config.attentionScale},
              {"tiedHead", config.tiedHead},
              {"maxPositions", config.maxPositions},
              {"dtype", typeName(config.dtype)}};
  if (config.softcap)
    out["softcap"] = *config.softcap;
  return out;
}

static json toJson(const WeightRecipe &weight) {
  return {{"name", weight.name},
          {"sources", weight.sources},
          {"shape", weight.shape},
          {"storage", typeName(weight.storage)},
          {"panel", weight.panel},
          {"kpack", weight.kpack},
          {"interleave", weight.interleave},
          {"group", weight.group},
          {"bytes", weight.bytes}};
}

static json toJson(const CachePlan &cache) {
  return {{"name", cache.name},
          {"ring", cache.ring},
          {"heads", cache.heads},
          {"dim", cache.dim},
          {"window", cache.window},
          {"page", cache.page},
          {"ringPages", cache.ringPages},
          {"elem", typeName(cache.elem)},
          {"lanes", cache.keys ? "kv" : "v"}};
}

static json toJson(const TablePlan &table) {
  return {{"name", table.name},
          {"theta", table.theta},
          {"denominator", table.denominator},
          {"active", table.active},
          {"elem", typeName(table.elem)}};
}

static json toJson(const KernelPlan &kernel) {
  json access = json::array();
  for (uint8_t one : kernel.access)
    access.push_back(accessName(one));
  return {{"name", kernel.name},
          {"grid", sizeExprToJson(kernel.grid)},
          {"scratchBytes", kernel.scratchBytes},
          {"threads", kernel.threads},
          {"sharedBytes", kernel.sharedBytes},
          {"queryTile", kernel.queryTile},
          {"keyTile", kernel.keyTile},
          {"access", std::move(access)},
          {"hash", kernel.hash}};
}

static json toJson(const LaunchArgument &argument) {
  using Kind = LaunchArgument::Kind;
  json out;
  switch (argument.kind) {
  case Kind::Buffer:
    return {{"kind", "buffer"},
            {"offset", argument.offset},
            {"bytes", argument.bytes},
            {"type", typeName(argument.type)},
            {"shape", argument.shape},
            {"stride", argument.stride},
            {"extent", std::string(1, argument.extent)}};
  case Kind::Workspace:
    return {{"kind", "workspace"}, {"offset", argument.offset}, {"bytes", argument.bytes}};
  case Kind::Tickets:
    return {{"kind", "tickets"}, {"bytes", argument.bytes}};
  case Kind::Weight:
    out = {{"kind", "weight"}, {"index", argument.index}};
    break;
  case Kind::Cache:
    out = {{"kind", "cache"}, {"index", argument.index}, {"lane", argument.name}};
    break;
  case Kind::Table:
    out = {{"kind", "table"}, {"index", argument.index}, {"lane", argument.name}};
    break;
  case Kind::Input:
    out = {{"kind", "input"}, {"name", argument.name}};
    break;
  case Kind::Output:
    out = {{"kind", "output"}, {"name", argument.name}};
    break;
  }
  if (argument.offset != 0)
    out["offset"] = argument.offset;
  return out;
}

static json toJson(const OutputPlan &output) {
  return {{"name", output.name},
          {"type", typeName(output.type)},
          {"shape", output.shape},
          {"extent", std::string(1, output.extent)}};
}

template <typename T> static json listToJson(const std::vector<T> &list) {
  json out = json::array();
  for (const T &item : list)
    out.push_back(toJson(item));
  return out;
}

static json toJson(const Launch &launch) {
  return {{"kernel", launch.kernel},
          {"arguments", listToJson(launch.arguments)},
          {"nodes", launch.nodes}};
}

static json toJson(const Variant &variant) {
  return {{"name", variant.name},
          {"conditions", listToJson(variant.conditions)},
          {"launches", listToJson(variant.launches)},
          {"arenaBytes", variant.arenaBytes}};
}

json programToJson(const Program &program) {
  return {{"config", toJson(program.config)},
          {"limits",
           {{"maxContext", program.limits.maxContext},
            {"maxBatch", program.limits.maxBatch},
            {"maxChunk", program.limits.maxChunk},
            {"maxLogitRows", program.limits.maxLogitRows}}},
          {"family", program.family == DeviceFamily::Host ? "host" : "cuda"},
          {"numerics", program.numerics},
          {"weightType", typeName(program.weightType)},
          {"activationType", typeName(program.activationType)},
          {"cacheType", typeName(program.cacheType)},
          {"fused", program.fused},
          {"weights", listToJson(program.weights)},
          {"caches", listToJson(program.caches)},
          {"tables", listToJson(program.tables)},
          {"kernels", listToJson(program.kernels)},
          {"outputs", listToJson(program.outputs)},
          {"variants", listToJson(program.variants)}};
}

} // namespace gemma
