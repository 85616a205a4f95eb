#include "runtime/engine/Artifact.h"

#include "runtime/abi/KernelAbi.h"
#include "runtime/abi/ProgramJson.h"
#include "runtime/abi/ProgramSizes.h"
#include "runtime/engine/ProgramCheck.h"
#include "runtime/support/Hash.h"
#include "runtime/support/JsonObject.h"
#include "runtime/support/MappedFile.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

namespace gemma {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

static constexpr std::string_view magic = "GEMMAART";
static constexpr size_t headerBytes = 64;
static constexpr size_t hashedHeaderBytes = 24;
static constexpr size_t digestBytes = 32;

const std::vector<std::string> &Artifact::knownFeatures() {
  static const std::vector<std::string> features = {"host-x86_64", "cuda", "top"};
  return features;
}

const char *objectKindName(ObjectKind kind) {
  switch (kind) {
  case ObjectKind::Host:
    return "host";
  case ObjectKind::Emulator:
    return "emulator";
  case ObjectKind::Cubin:
    return "cubin";
  case ObjectKind::Ptx:
    return "ptx";
  }
  return "unknown";
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

struct Section {
  std::string name;
  const std::string *bytes;
};

template <typename T> void appendInteger(std::string &out, T value) {
  out.append(reinterpret_cast<const char *>(&value), sizeof value);
}

} // namespace

static std::vector<Section> sectionsOf(const Artifact &artifact) {
  std::vector<Section> sections;
  sections.reserve(artifact.objects.size() + 2);
  for (const KernelBinary &object : artifact.objects)
    sections.push_back({"object:" + object.name, &object.bytes});
  if (artifact.tokenizer)
    sections.push_back({"tokenizer.json", &*artifact.tokenizer});
  if (artifact.tokenizerConfig)
    sections.push_back({"tokenizer_config.json", &*artifact.tokenizerConfig});
  return sections;
}

/// JSON text of a value whose strings may be no UTF-8 (a folder's name): such bytes become U+FFFD.
static std::string dump(const json &value) {
  return value.dump(-1, ' ', false, json::error_handler_t::replace);
}

static json toJson(const GenerationDefaults &generation) {
  json out = json::object();
  auto put = [&](const char *key, const auto &value) {
    if (value)
      out[key] = *value;
  };
  put("doSample", generation.doSample);
  put("temperature", generation.temperature);
  put("topK", generation.topK);
  put("topP", generation.topP);
  put("minP", generation.minP);
  put("bosId", generation.bosId);
  return out;
}

static uint64_t roundUp(uint64_t value) { return (value + 63) / 64 * 64; }

/// The identity part. Section offsets stand in the manifest whose length they depend on, so the
/// manifest is padded with spaces to a length that is a multiple of 64.
static std::string identityPart(const Artifact &artifact) {
  json objects = json::array();
  for (const KernelBinary &object : artifact.objects)
    objects.push_back({{"name", object.name},
                       {"kind", objectKindName(object.kind)},
                       {"kernel", object.kernel},
                       {"features", object.features}});
  json manifest = {{"program", programToJson(artifact.program)},
                   {"modelName", artifact.modelName},
                   {"compilerVersion", artifact.compilerVersion},
                   {"requiredFeatures", artifact.requiredFeatures},
                   {"licence", artifact.licence},
                   {"eosIds", artifact.eosIds},
                   {"objects", std::move(objects)}};
  std::vector<Section> sections = sectionsOf(artifact);
  if (artifact.generation)
    manifest["generation"] = toJson(*artifact.generation);
  // A first guess of the manifest's length; a longer one only moves the sections.
  uint64_t room = roundUp(dump(manifest).size() + 64 + sections.size() * 256);
  std::string text;
  for (;;) {
    json list = json::array();
    uint64_t offset = roundUp(headerBytes + 8 + room);
    for (const Section &section : sections) {
      list.push_back(
          {{"name", section.name}, {"offset", offset}, {"bytes", section.bytes->size()}});
      offset = roundUp(offset + section.bytes->size());
    }
    manifest["sections"] = std::move(list);
    text = dump(manifest);
    if (text.size() <= room)
      break;
    room = roundUp(text.size());
  }
  text.resize(room, ' ');
  std::string out;
  appendInteger(out, uint64_t(text.size()));
  out += text;
  for (const Section &section : sections) {
    out.resize(roundUp(headerBytes + out.size()) - headerBytes, '\0');
    out += *section.bytes;
  }
  return out;
}

static std::string hintPart(const Artifact &artifact) {
  json files = json::array();
  for (const RecordedFile &file : artifact.checkpointFiles)
    files.push_back({{"name", file.name},
                     {"size", file.size},
                     {"headerHash", file.headerHash},
                     {"contentHash", file.contentHash}});
  json hint = {{"checkpointFolder", artifact.checkpointFolder}, {"checkpointFiles", files}};
  if (artifact.syntheticSeed)
    hint["syntheticSeed"] = *artifact.syntheticSeed;
  std::string text = dump(hint);
  return hashHex(text) + text;
}

Expected<StagedFile> stageArtifact(const std::filesystem::path &path, const Artifact &artifact) {
  if (Status status = checkProgram(artifact.program, "artifact"); !status)
    return internalError("refusing to write an inconsistent artifact: " + status.error().message);
  std::string body = identityPart(artifact);
  std::string hint = hintPart(artifact);
  std::string header(magic);
  appendInteger(header, artifactFormatVersion);
  appendInteger(header, uint32_t(GEMMA_KERNEL_ABI_VERSION));
  appendInteger(header, uint64_t(body.size()));
  Hasher hasher;
  hasher.update(header);
  hasher.update(body);
  appendInteger(header, uint64_t(hint.size()));
  header += hasher.digest();
  return StagedFile::write(path, [&](FileWriter &writer) -> Status {
    for (const std::string *part : {&header, &body, &hint})
      if (Status status = writer.write(*part); !status)
        return status;
    return {};
  });
}

Status writeArtifact(const std::filesystem::path &path, const Artifact &artifact) {
  Expected<StagedFile> staged = stageArtifact(path, artifact);
  return staged ? staged->commit() : staged.status();
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

template <typename T> T integerAt(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

class ArtifactReader {
public:
  ArtifactReader(std::string_view file, std::string where) : file(file), where(std::move(where)) {}

  Expected<Artifact> read() {
    if (Status status = checkHeader(); !status)
      return status;
    if (Status status = readManifest(); !status)
      return status;
    if (Status status = readHint(); !status)
      return status;
    return std::move(artifact);
  }

private:
  Error error(const std::string &what) const { return badInput(where + ": " + what); }

  Status checkHeader() {
    if (file.substr(0, magic.size()) != magic)
      return error("not an artifact of gemma-compile: it does not begin with GEMMAART");
    if (file.size() < headerBytes)
      return error("truncated: expected a header of 64 bytes, got a file of " +
                   std::to_string(file.size()));
    uint32_t format = integerAt<uint32_t>(file, 8), abi = integerAt<uint32_t>(file, 12);
    if (format != artifactFormatVersion)
      return error("expected artifact format version " + std::to_string(artifactFormatVersion) +
                   ", got " + std::to_string(format) + "; compile it again");
    if (abi != GEMMA_KERNEL_ABI_VERSION)
      return error("expected kernel ABI version " + std::to_string(GEMMA_KERNEL_ABI_VERSION) +
                   ", got " + std::to_string(abi) + "; compile it again");
    uint64_t body = integerAt<uint64_t>(file, 16), hint = integerAt<uint64_t>(file, 24);
    uint64_t rest = file.size() - headerBytes;
    if (body > rest || hint != rest - body)
      return error("truncated or damaged: the header tells of " + std::to_string(body) + " and " +
                   std::to_string(hint) + " bytes, the file has " + std::to_string(rest) +
                   " after its header");
    Hasher hasher;
    hasher.update(file.substr(0, hashedHeaderBytes));
    hasher.update(file.substr(headerBytes, body));
    artifact.identity = hasher.digest();
    if (file.substr(digestAt, digestBytes) != artifact.identity)
      return error("damaged: its content has hash " + artifact.identity + ", the header says " +
                   quoteForMessage(file.substr(digestAt, digestBytes)));
    hintBegin = headerBytes + body;
    return {};
  }

  Status readManifest() {
    std::string_view body = file.substr(headerBytes, hintBegin - headerBytes);
    uint64_t length = body.size() < 8 ? 0 : integerAt<uint64_t>(body, 0);
    if (body.size() < 8 || length > body.size() - 8)
      return error("manifest: longer than the file");
    JsonLimits limits;
    limits.maxValues = size_t(32) << 20;
    Expected<json> manifest = parseJson(body.substr(8, length), where + ": manifest", limits);
    if (!manifest)
      return manifest.status();
    if (!manifest->is_object())
      return error("manifest: expected an object");
    Problems problems;
    JsonObject object(*manifest, where, "", problems);
    // What this runtime cannot do is said first: the rest may be in a form of the future.
    strings(object, "requiredFeatures", artifact.requiredFeatures);
    const std::vector<std::string> &known = Artifact::knownFeatures();
    for (const std::string &feature : artifact.requiredFeatures)
      if (std::find(known.begin(), known.end(), feature) == known.end())
        return error("it requires the feature " + quoteForMessage(feature) +
                     ", which this runtime does not know; use a newer one");
    artifact.modelName = text(object, "modelName");
    artifact.compilerVersion = text(object, "compilerVersion");
    artifact.licence = text(object, "licence");
    integers(object, "eosIds", artifact.eosIds);
    if (std::optional<JsonObject> generation = object.object("generation")) {
      artifact.generation.emplace();
      artifact.generation->doSample = generation->boolean("doSample");
      artifact.generation->temperature = generation->number("temperature");
      artifact.generation->topK = generation->integer("topK", {0, INT64_MAX});
      artifact.generation->topP = generation->number("topP");
      artifact.generation->minP = generation->number("minP");
      artifact.generation->bosId = generation->integer("bosId");
      artifact.generation->eosIds = artifact.eosIds;
    }
    readSections(object);
    readObjects(object);
    const json *program = object.find("program");
    if (!program)
      object.mismatch("program", "an object");
    if (!problems.empty())
      return problems.error();
    Expected<Program> read = programFromJson(*program, where);
    if (!read)
      return read.status();
    artifact.program = std::move(*read);
    return checkProgram(artifact.program, where);
  }

  static std::string text(const JsonObject &object, const char *key) {
    if (!object.has(key))
      object.mismatch(key, "a string");
    return object.string(key).value_or("");
  }

  static const json &array(const JsonObject &object, const char *key) {
    static const json empty = json::array();
    const json *value = object.find(key);
    if (value && value->is_array())
      return *value;
    object.mismatch(key, "an array");
    return empty;
  }

  static void strings(const JsonObject &object, const char *key, std::vector<std::string> &out) {
    for (const json &item : array(object, key))
      if (item.is_string())
        out.push_back(item.get<std::string>());
      else
        object.mismatch(key, "strings");
  }

  static void integers(const JsonObject &object, const char *key, std::vector<int64_t> &out) {
    for (const json &item : array(object, key))
      if (std::optional<int64_t> value = asInteger(item))
        out.push_back(*value);
      else
        object.mismatch(key, "integers");
  }

  void readSections(const JsonObject &object) {
    for (const json &item : array(object, "sections")) {
      if (!item.is_object()) {
        object.mismatch("sections", "objects");
        return;
      }
      JsonObject section(item, where, "sections", object.problems());
      std::string name = text(section, "name");
      uint64_t offset = uint64_t(section.requiredInteger("offset", {0, INT64_MAX}).value_or(0));
      uint64_t bytes = uint64_t(section.requiredInteger("bytes", {0, INT64_MAX}).value_or(0));
      if (offset > hintBegin || bytes > hintBegin - offset) {
        section.mismatch("bytes", "a range inside the file");
        return;
      }
      std::string content(file.substr(offset, bytes));
      if (name == "tokenizer.json")
        artifact.tokenizer = std::move(content);
      else if (name == "tokenizer_config.json")
        artifact.tokenizerConfig = std::move(content);
      else
        sections.emplace_back(std::move(name), std::move(content));
    }
  }

  static ObjectKind kindOf(const std::string &name, const JsonObject &entry) {
    for (ObjectKind kind :
         {ObjectKind::Host, ObjectKind::Emulator, ObjectKind::Cubin, ObjectKind::Ptx})
      if (name == objectKindName(kind))
        return kind;
    entry.mismatch("kind", "host, emulator, cubin or ptx");
    return ObjectKind::Host;
  }

  void readObjects(const JsonObject &object) {
    for (const json &item : array(object, "objects")) {
      if (!item.is_object()) {
        object.mismatch("objects", "objects");
        return;
      }
      JsonObject entry(item, where, "objects", object.problems());
      KernelBinary host;
      host.name = text(entry, "name");
      host.kind = kindOf(text(entry, "kind"), entry);
      host.kernel = entry.string("kernel").value_or("");
      strings(entry, "features", host.features);
      auto found = std::find_if(sections.begin(), sections.end(), [&](const auto &section) {
        return section.first == "object:" + host.name;
      });
      if (found == sections.end())
        entry.mismatch("name", "the name of a section object:NAME");
      else
        host.bytes = std::move(found->second);
      artifact.objects.push_back(std::move(host));
    }
  }

  Status readHint() {
    std::string_view hint = file.substr(hintBegin);
    if (hint.size() < digestBytes ||
        hashHex(hint.substr(digestBytes)) != hint.substr(0, digestBytes))
      return error("damaged: the record of the checkpoint's folder does not have its hash");
    Expected<json> parsed = parseJson(hint.substr(digestBytes), where + ": hint");
    if (!parsed)
      return parsed.status();
    if (!parsed->is_object())
      return error("hint: expected an object");
    Problems problems;
    JsonObject object(*parsed, where, "", problems);
    artifact.checkpointFolder = text(object, "checkpointFolder");
    for (const json &item : array(object, "checkpointFiles")) {
      if (!item.is_object()) {
        object.mismatch("checkpointFiles", "objects");
        break;
      }
      JsonObject entry(item, where, "checkpointFiles", problems);
      artifact.checkpointFiles.push_back(
          {text(entry, "name"), uint64_t(entry.requiredInteger("size", {0, INT64_MAX}).value_or(0)),
           text(entry, "headerHash"), text(entry, "contentHash")});
    }
    if (object.has("syntheticSeed"))
      artifact.syntheticSeed =
          uint64_t(object.requiredInteger("syntheticSeed", {0, INT64_MAX}).value_or(0));
    return problems.empty() ? Status() : Status(problems.error());
  }

  static constexpr size_t digestAt = 32;

  std::string_view file;
  std::string where;
  size_t hintBegin = 0;
  std::vector<std::pair<std::string, std::string>> sections;
  Artifact artifact;
};

} // namespace

Expected<Artifact> readArtifact(const std::filesystem::path &path) {
  Expected<MappedFile> mapped = MappedFile::open(path);
  if (!mapped)
    return mapped.status();
  std::span<const std::byte> bytes = mapped->bytes();
  return ArtifactReader({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, path.string())
      .read();
}

bool looksLikeArtifact(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  char start[magic.size()] = {};
  file.read(start, sizeof start);
  return file.gcount() == sizeof start && std::string_view(start, sizeof start) == magic;
}

} // namespace gemma
