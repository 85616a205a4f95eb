// Reading of what ProgramJson.cpp writes.
#include "runtime/abi/ProgramJson.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/support/JsonObject.h"

#include <cmath>

namespace gemma {

using nlohmann::json;

namespace {

/// The readers report into the object's Problems and give a harmless value where one is wrong: the
/// whole program is refused at the end.
constexpr IntegerRange sizeRange{0, INT64_MAX};

int64_t readSize(const JsonObject &object, const char *key) {
  return object.requiredInteger(key, sizeRange).value_or(0);
}

int64_t readIndex(const JsonObject &object, const char *key, size_t count) {
  if (count == 0) {
    object.mismatch(key, "no such argument, as the program has none of its kind");
    return 0;
  }
  return object.requiredInteger(key, {0, int64_t(count) - 1}).value_or(0);
}

double readNumber(const JsonObject &object, const char *key) {
  if (!object.has(key))
    object.mismatch(key, "a number");
  return object.number(key).value_or(0);
}

bool readBool(const JsonObject &object, const char *key) {
  if (!object.has(key))
    object.mismatch(key, "true or false");
  return object.boolean(key).value_or(false);
}

std::string readString(const JsonObject &object, const char *key) {
  if (!object.has(key))
    object.mismatch(key, "a string");
  return object.string(key).value_or("");
}

/// Which types a key may name.
enum class Types { Floats, FloatsAndI8, FloatsAndQuantized, Bytes };

ScalarType readType(const JsonObject &object, const char *key, Types allowed = Types::Floats) {
  const json *value = object.find(key);
  std::optional<ScalarType> type;
  if (value && value->is_string())
    type = scalarTypeFromName(value->get_ref<const std::string &>());
  bool known =
      type && (isFloat(*type) || (allowed == Types::FloatsAndI8 && *type == ScalarType::I8) ||
               (allowed == Types::FloatsAndQuantized && isQuantized(*type)) ||
               (allowed == Types::Bytes && *type != ScalarType::I4));
  if (!known)
    object.mismatch(key, allowed == Types::Floats               ? "a float type"
                         : allowed == Types::FloatsAndI8        ? "a float type or i8"
                         : allowed == Types::FloatsAndQuantized ? "a float type, i8 or i4"
                                                                : "a type of whole bytes");
  return known ? *type : ScalarType::F32;
}

/// Calls `read(value, place)` for each element of an array.
template <typename Read> void forEach(const JsonObject &object, const char *key, Read &&read) {
  const json *value = object.find(key);
  if (!value || !value->is_array()) {
    object.mismatch(key, "an array");
    return;
  }
  size_t index = 0;
  for (const json &item : *value)
    read(item, object.place(key) + "[" + std::to_string(index++) + "]");
}

std::vector<std::string> readStrings(const JsonObject &object, const char *key) {
  std::vector<std::string> out;
  forEach(object, key, [&](const json &item, const std::string &place) {
    if (item.is_string())
      out.push_back(item.get<std::string>());
    else
      object.problems().add(place + ": expected a string, got " + describe(item));
  });
  return out;
}

std::vector<int64_t> readShape(const JsonObject &object, const char *key) {
  std::vector<int64_t> out;
  forEach(object, key, [&](const json &item, const std::string &place) {
    std::optional<int64_t> size = asInteger(item);
    if (size && *size > 0)
      out.push_back(*size);
    else
      object.problems().add(place + ": expected a positive integer, got " + describe(item));
  });
  return out;
}

/// One of `names`; its index.
size_t readEnum(const json &value, const std::string &place,
                std::initializer_list<const char *> names, Problems &problems) {
  std::string all;
  size_t index = 0;
  for (const char *name : names) {
    if (value.is_string() && value.get_ref<const std::string &>() == name)
      return index;
    all += std::string(index ? ", " : "") + name;
    ++index;
  }
  problems.add(place + ": expected one of " + all + ", got " + describe(value));
  return 0;
}

size_t readEnum(const JsonObject &object, const char *key,
                std::initializer_list<const char *> names) {
  const json *value = object.find(key);
  return readEnum(value ? *value : json(), object.place(key), names, object.problems());
}

SizeExpr readExpr(const JsonObject &object, const char *key) {
  SizeExpr expr;
  forEach(object, key, [&](const json &item, const std::string &place) {
    using Op = SizeExpr::Op;
    if (std::optional<int64_t> constant = asInteger(item)) {
      expr.terms.push_back({Op::Constant, *constant});
      return;
    }
    size_t word =
        readEnum(item, place, {"T", "B", "Q", "S", "R", "+", "*", "floordiv", "ceildiv", "mod"},
                 object.problems());
    static constexpr Op operators[] = {Op::Add, Op::Mul, Op::FloorDiv, Op::CeilDiv, Op::Mod};
    if (word < 5)
      expr.terms.push_back({Op::Size, int64_t(word)});
    else
      expr.terms.push_back({operators[word - 5], 0});
  });
  if (!expr.wellFormed())
    object.problems().add(object.place(key) + ": expected one whole expression in postfix order");
  return expr;
}

/// Reads an array of objects with `read(object)`.
template <typename T, typename Read>
std::vector<T> readList(const JsonObject &object, const std::string &file, const char *key,
                        Read &&read) {
  std::vector<T> out;
  forEach(object, key, [&](const json &item, const std::string &place) {
    if (!item.is_object()) {
      object.problems().add(place + ": expected an object, got " + describe(item));
      return;
    }
    // place() begins with the file's name, which JsonObject puts before its path again.
    std::string path = place.substr(file.size() + 2);
    out.push_back(read(JsonObject(item, file, path, object.problems())));
  });
  return out;
}

class Reader {
public:
  Reader(std::string file, Problems &problems) : file(std::move(file)), problems(problems) {}

  Program read(const json &root) {
    JsonObject object(root, file, "program", problems);
    if (auto config = part(object, "config"))
      program.config = readConfig(*config);
    if (auto limits = part(object, "limits")) {
      program.limits.maxContext = readSize(*limits, "maxContext");
      program.limits.maxBatch = readSize(*limits, "maxBatch");
      program.limits.maxChunk = readSize(*limits, "maxChunk");
      program.limits.maxLogitRows = readSize(*limits, "maxLogitRows");
    }
    program.family = DeviceFamily(readEnum(object, "family", {"host", "cuda"}));
    program.numerics = readString(object, "numerics");
    program.weightType = readType(object, "weightType", Types::FloatsAndQuantized);
    program.activationType = readType(object, "activationType");
    program.cacheType = readType(object, "cacheType", Types::FloatsAndI8);
    program.fused = readBool(object, "fused");
    program.weights = readList<WeightRecipe>(object, file, "weights", readWeight);
    program.caches = readList<CachePlan>(object, file, "caches", readCache);
    program.tables = readList<TablePlan>(object, file, "tables", readTable);
    program.kernels = readList<KernelPlan>(object, file, "kernels", readKernel);
    program.outputs = readList<OutputPlan>(object, file, "outputs", readOutput);
    program.variants = readList<Variant>(object, file, "variants",
                                         [&](const JsonObject &o) { return readVariant(o); });
    return std::move(program);
  }

private:
  static std::optional<JsonObject> part(const JsonObject &object, const char *key) {
    if (!object.has(key))
      object.mismatch(key, "an object");
    return object.object(key);
  }

  static AttentionConfig readAttention(const JsonObject &object, const char *key) {
    AttentionConfig out;
    std::optional<JsonObject> attention = part(object, key);
    if (!attention)
      return out;
    out.kvHeads = readSize(*attention, "kvHeads");
    out.headDim = readSize(*attention, "headDim");
    out.window = readSize(*attention, "window");
    out.valuesAreKeys = readBool(*attention, "valuesAreKeys");
    if (std::optional<JsonObject> rope = part(*attention, "rope")) {
      out.rope.theta = readNumber(*rope, "theta");
      out.rope.rotary = readSize(*rope, "rotary");
      out.rope.denominator = readSize(*rope, "denominator");
      out.rope.active = readSize(*rope, "active");
    }
    return out;
  }

  static ModelConfig readConfig(const JsonObject &object) {
    ModelConfig out;
    out.vocab = readSize(object, "vocab");
    out.hidden = readSize(object, "hidden");
    out.intermediate = readSize(object, "intermediate");
    out.heads = readSize(object, "heads");
    forEach(object, "layerKinds", [&](const json &item, const std::string &place) {
      size_t kind = readEnum(item, place, {"sliding", "global"}, object.problems());
      out.layerKinds.push_back(kind == 0 ? LayerKind::Sliding : LayerKind::Global);
    });
    out.sliding = readAttention(object, "sliding");
    out.global = readAttention(object, "global");
    out.rmsEps = readNumber(object, "rmsEps");
    out.attentionScale = readNumber(object, "attentionScale");
    out.softcap = object.number("softcap");
    out.tiedHead = readBool(object, "tiedHead");
    out.maxPositions = readSize(object, "maxPositions");
    out.dtype = readType(object, "dtype");
    return out;
  }

  static WeightRecipe readWeight(const JsonObject &object) {
    WeightRecipe out;
    out.name = readString(object, "name");
    out.sources = readStrings(object, "sources");
    out.shape = readShape(object, "shape");
    out.storage = readType(object, "storage", Types::FloatsAndQuantized);
    out.panel = readSize(object, "panel");
    out.kpack = readSize(object, "kpack");
    out.interleave = readSize(object, "interleave");
    out.group = readSize(object, "group");
    out.bytes = uint64_t(readSize(object, "bytes"));
    return out;
  }

  static CachePlan readCache(const JsonObject &object) {
    CachePlan out;
    out.name = readString(object, "name");
    out.ring = readBool(object, "ring");
    out.heads = readSize(object, "heads");
    out.dim = readSize(object, "dim");
    out.window = readSize(object, "window");
    out.page = readSize(object, "page");
    out.ringPages = readSize(object, "ringPages");
    out.elem = readType(object, "elem", Types::FloatsAndI8);
    out.keys = readEnum(object, "lanes", {"kv", "v"}) == 0;
    return out;
  }

  static TablePlan readTable(const JsonObject &object) {
    TablePlan out;
    out.name = readString(object, "name");
    out.theta = readNumber(object, "theta");
    out.denominator = readSize(object, "denominator");
    out.active = readSize(object, "active");
    out.elem = readType(object, "elem");
    return out;
  }

  static KernelPlan readKernel(const JsonObject &object) {
    KernelPlan out;
    out.name = readString(object, "name");
    out.grid = readExpr(object, "grid");
    out.scratchBytes = uint64_t(readSize(object, "scratchBytes"));
    out.threads = uint64_t(readSize(object, "threads"));
    out.sharedBytes = uint64_t(readSize(object, "sharedBytes"));
    out.queryTile = readSize(object, "queryTile");
    out.keyTile = readSize(object, "keyTile");
    forEach(object, "access", [&](const json &item, const std::string &place) {
      out.access.push_back(
          uint8_t(readEnum(item, place, {"read", "write", "readwrite"}, object.problems())));
    });
    out.hash = readString(object, "hash");
    return out;
  }

  static OutputPlan readOutput(const JsonObject &object) {
    OutputPlan out;
    out.name = readString(object, "name");
    out.type = readType(object, "type", Types::Bytes);
    out.shape = readShape(object, "shape");
    out.extent = readEnum(object, "extent", {"T", "R"}) == 0 ? 'T' : 'R';
    return out;
  }

  LaunchArgument readArgument(const JsonObject &object) const {
    using Kind = LaunchArgument::Kind;
    LaunchArgument out;
    out.kind = Kind(readEnum(
        object, "kind",
        {"buffer", "workspace", "tickets", "weight", "cache", "table", "input", "output"}));
    if (out.kind == Kind::Workspace || out.kind == Kind::Tickets) {
      if (out.kind == Kind::Workspace)
        out.offset = uint64_t(readSize(object, "offset"));
      out.bytes = uint64_t(readSize(object, "bytes"));
      return out;
    }
    if (out.kind == Kind::Buffer) {
      out.offset = uint64_t(readSize(object, "offset"));
      out.bytes = uint64_t(readSize(object, "bytes"));
      out.type = readType(object, "type", Types::Bytes);
      out.shape = readShape(object, "shape");
      out.stride = readSize(object, "stride");
      out.extent = "TBR1"[readEnum(object, "extent", {"T", "B", "R", "1"})];
      return out;
    }
    out.offset = uint64_t(object.integer("offset", sizeRange).value_or(0));
    switch (out.kind) {
    case Kind::Buffer:
    case Kind::Workspace:
    case Kind::Tickets:
      break;
    case Kind::Weight:
      out.index = readIndex(object, "index", program.weights.size());
      break;
    case Kind::Cache:
      out.index = readIndex(object, "index", program.caches.size());
      out.name = cacheLaneNames[readEnum(object, "lane", {"k", "v", "k_scales", "v_scales"})];
      break;
    case Kind::Table: {
      static const char *lanes[] = {"cos_hi", "sin_hi", "cos_lo", "sin_lo"};
      out.index = readIndex(object, "index", program.tables.size());
      out.name = lanes[readEnum(object, "lane", {"cos_hi", "sin_hi", "cos_lo", "sin_lo"})];
      break;
    }
    case Kind::Input:
    case Kind::Output:
      out.name = readString(object, "name");
      break;
    }
    return out;
  }

  Launch readLaunch(const JsonObject &object) const {
    Launch out;
    out.kernel = readIndex(object, "kernel", program.kernels.size());
    out.arguments = readList<LaunchArgument>(object, file, "arguments",
                                             [&](const JsonObject &o) { return readArgument(o); });
    out.nodes = readStrings(object, "nodes");
    return out;
  }

  Variant readVariant(const JsonObject &object) const {
    Variant out;
    out.name = readString(object, "name");
    out.conditions = readList<SizeCondition>(object, file, "conditions", [](const JsonObject &o) {
      SizeCondition condition;
      condition.expr = readExpr(o, "expr");
      condition.equality = readEnum(o, "relation", {"ge", "eq"}) == 1;
      return condition;
    });
    out.launches = readList<Launch>(object, file, "launches",
                                    [&](const JsonObject &o) { return readLaunch(o); });
    out.arenaBytes = uint64_t(readSize(object, "arenaBytes"));
    return out;
  }

  std::string file;
  Problems &problems;
  Program program;
};

} // namespace

Expected<Program> programFromJson(const json &root, const std::string &where) {
  if (!root.is_object())
    return badInput(where + ": program: expected an object, got " + describe(root));
  Problems problems;
  Program program = Reader(where, problems).read(root);
  if (!problems.empty())
    return problems.error();
  return program;
}

} // namespace gemma
