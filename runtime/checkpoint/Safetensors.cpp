#include "runtime/checkpoint/Safetensors.h"

#include "runtime/support/Hash.h"
#include "runtime/support/JsonObject.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace gemma {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensor data is used as it lies");

static constexpr uint64_t kLengthBytes = 8;
static constexpr uint64_t kMaxHeaderBytes = 100'000'000; // the official reader's limit

namespace {

struct Dtype {
  std::string_view name;
  unsigned bytes;
  std::optional<ScalarType> type;
};

constexpr std::array<Dtype, 17> kDtypes = {{
    {"F64", 8, ScalarType::F64},
    {"F32", 4, ScalarType::F32},
    {"BF16", 2, ScalarType::BF16},
    {"F16", 2, ScalarType::F16},
    {"I64", 8, ScalarType::I64},
    {"I32", 4, ScalarType::I32},
    {"I16", 2, ScalarType::I16},
    {"I8", 1, ScalarType::I8},
    {"U8", 1, ScalarType::U8},
    {"BOOL", 1, ScalarType::Bool},
    // What the text model never uses, but a skipped tensor may have:
    {"U16", 2, std::nullopt},
    {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt},
    {"C64", 8, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
}};

} // namespace

std::string_view safetensorsName(ScalarType type) {
  for (const Dtype &dtype : kDtypes)
    if (dtype.type == type)
      return dtype.name;
  return "";
}

std::string shapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i == 8) {
      text += ", ...";
      break;
    }
    text += (i ? ", " : "") + std::to_string(shape[i]);
  }
  return text + "]";
}

static const Dtype *findDtype(std::string_view name) {
  for (const Dtype &dtype : kDtypes)
    if (dtype.name == name)
      return &dtype;
  return nullptr;
}

/// Bytes of a tensor; nothing if the number does not fit 64 bits.
static std::optional<uint64_t> byteSize(std::span<const int64_t> shape, unsigned elementBytes) {
  uint64_t bytes = elementBytes;
  for (int64_t dim : shape)
    if (__builtin_mul_overflow(bytes, uint64_t(dim), &bytes))
      return std::nullopt;
  return bytes;
}

static std::string needHave(uint64_t need, uint64_t have) {
  return "need " + std::to_string(need) + " bytes, have " + std::to_string(have);
}

/// A list of non-negative integers; nothing if `value` is anything else.
static std::optional<std::vector<int64_t>> naturals(const json *value) {
  if (!value || !value->is_array())
    return std::nullopt;
  std::vector<int64_t> list;
  list.reserve(value->size());
  for (const json &element : *value) {
    std::optional<int64_t> number = asInteger(element);
    if (!number || *number < 0)
      return std::nullopt;
    list.push_back(*number);
  }
  return list;
}

/// The value of a key of an entry in a message.
static std::string found(const json *value) {
  if (!value)
    return "nothing";
  if (value->is_array() && value->size() <= 8) {
    std::string text = "[";
    for (const json &element : *value)
      text += (text.size() > 1 ? ", " : "") + describe(element);
    return text + "]";
  }
  return describe(*value);
}

/// One entry of the header; what depends on the file's size or on two keys is checked later.
/// `header.bytes` is known.
static Expected<SafetensorsEntry> parseEntry(const std::string &name, const json &value,
                                             const SafetensorsHeader &header,
                                             const std::string &where) {
  auto get = [&](const char *key) -> const json * {
    auto it = value.find(key);
    return it == value.end() ? nullptr : &*it;
  };
  std::string tensor = where + ": tensor " + quoteForMessage(name);
  if (!value.is_object())
    return badInput(tensor + ": expected an object, got " + describe(value));

  SafetensorsEntry entry;
  entry.name = name;
  const json *dtype = get("dtype");
  if (!dtype || !dtype->is_string())
    return badInput(tensor + ": dtype: expected a string, got " + found(dtype));
  entry.dtype = dtype->get<std::string>();
  const Dtype *known = findDtype(entry.dtype);
  if (!known)
    return badInput(tensor + ": dtype: expected a safetensors type such as BF16, got " +
                    quoteForMessage(entry.dtype));
  entry.type = known->type;

  std::optional<std::vector<int64_t>> shape = naturals(get("shape"));
  if (!shape)
    return badInput(tensor + ": shape: expected a list of non-negative integers, got " +
                    found(get("shape")));
  entry.shape = std::move(*shape);
  if (!byteSize(entry.shape, known->bytes))
    return badInput(tensor + ": shape " + shapeText(entry.shape) + ": more than 2^64 bytes");

  std::optional<std::vector<int64_t>> range = naturals(get("data_offsets"));
  if (!range || range->size() != 2)
    return badInput(tensor + ": data_offsets: expected two non-negative integers, got " +
                    found(get("data_offsets")));
  uint64_t begin = uint64_t((*range)[0]), end = uint64_t((*range)[1]);
  if (begin > end)
    return badInput(tensor + ": data_offsets: expected the end not before the begin, got " +
                    found(get("data_offsets")));
  entry.offset = header.bytes + begin; // <= 100 MB + 8 + 2^63: no overflow, here and in checkEnd
  entry.bytes = end - begin;
  return entry;
}

static Status parseMetadata(const json &value, SafetensorsHeader &header,
                            const std::string &where) {
  if (!value.is_object())
    return badInput(where + ": __metadata__: expected an object, got " + describe(value));
  for (const auto &[key, text] : value.items()) {
    if (!text.is_string())
      return badInput(where + ": __metadata__." + quoteForMessage(key) +
                      ": expected a string, got " + describe(text));
    header.metadata.emplace(key, text.get<std::string>());
  }
  return {};
}

/// No byte range may reach past the end of the file. The largest end says what a whole file needs.
static Status checkEnd(const SafetensorsHeader &header, uint64_t fileSize,
                       const std::string &where) {
  auto last = std::max_element(header.entries.begin(), header.entries.end(),
                               [](const SafetensorsEntry &a, const SafetensorsEntry &b) {
                                 return a.offset + a.bytes < b.offset + b.bytes;
                               });
  if (last == header.entries.end() || last->offset + last->bytes <= fileSize)
    return {};
  return badInput(where + ": tensor " + quoteForMessage(last->name) +
                  ": data_offsets reach past the end of the file (truncated?): " +
                  needHave(last->offset + last->bytes, fileSize));
}

/// Each byte range must have the bytes of its shape and type.
static Status checkSizes(const SafetensorsHeader &header, const std::string &where) {
  for (const SafetensorsEntry &entry : header.entries) {
    uint64_t wanted = *byteSize(entry.shape, findDtype(entry.dtype)->bytes);
    if (wanted != entry.bytes)
      return badInput(where + ": tensor " + quoteForMessage(entry.name) +
                      ": data_offsets: expected " + std::to_string(wanted) + " bytes (shape " +
                      shapeText(entry.shape) + " of " + entry.dtype + "), got " +
                      std::to_string(entry.bytes));
  }
  return {};
}

/// The byte ranges must follow one another from the header's end to the file's end.
static Status checkCover(const SafetensorsHeader &header, uint64_t fileSize,
                         const std::string &where) {
  std::vector<const SafetensorsEntry *> order;
  order.reserve(header.entries.size());
  for (const SafetensorsEntry &entry : header.entries)
    order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const auto *a, const auto *b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  uint64_t next = header.bytes;
  const SafetensorsEntry *previous = nullptr;
  for (const SafetensorsEntry *entry : order) {
    if (entry->offset < next)
      return badInput(where + ": tensors " + quoteForMessage(previous->name) + " and " +
                      quoteForMessage(entry->name) + " overlap: expected the second to begin at " +
                      std::to_string(next - header.bytes) + ", got " +
                      std::to_string(entry->offset - header.bytes));
    if (entry->offset > next)
      return badInput(where + ": tensor " + quoteForMessage(entry->name) +
                      ": expected its data to begin at " + std::to_string(next - header.bytes) +
                      ", got " + std::to_string(entry->offset - header.bytes) +
                      ": the bytes between belong to no tensor");
    next = entry->offset + entry->bytes;
    previous = entry;
  }
  if (next != fileSize)
    return badInput(where + ": expected the file to end with the last tensor at byte " +
                    std::to_string(next) + ", got " + std::to_string(fileSize - next) +
                    " bytes more");
  return {};
}

Expected<SafetensorsHeader> parseSafetensorsHeader(std::span<const std::byte> start,
                                                   uint64_t fileSize, std::string_view whereView) {
  std::string where(whereView);
  if (fileSize < kLengthBytes || start.size() < kLengthBytes)
    return badInput(where + ": no safetensors file: " + needHave(kLengthBytes, fileSize) +
                    " for the header length");
  uint64_t length;
  std::memcpy(&length, start.data(), sizeof length);
  if (length < 2)
    return badInput(where + ": header length: expected at least 2 bytes, got " +
                    std::to_string(length));
  if (length > kMaxHeaderBytes)
    return badInput(where + ": header length: expected at most " + std::to_string(kMaxHeaderBytes) +
                    " bytes, got " + std::to_string(length));
  if (length > fileSize - kLengthBytes || length > start.size() - kLengthBytes)
    return badInput(where + ": file ends inside the header (truncated?): " +
                    needHave(kLengthBytes + length, fileSize));
  std::string_view text(reinterpret_cast<const char *>(start.data()) + kLengthBytes, length);
  if (text.front() != '{')
    return badInput(where + ": header: expected a JSON object, got " +
                    quoteForMessage(text.substr(0, 1)) + " as its first byte");

  // object -> entry -> list; a hostile file may nest as deep only where nothing is allowed anyway
  Expected<json> parsed = parseJson(text, where, {.maxDepth = 4, .topLevelNoun = "tensor name"});
  if (!parsed)
    return parsed.error();

  SafetensorsHeader header;
  header.bytes = kLengthBytes + length;
  for (const auto &[name, value] : parsed->items()) {
    if (name == "__metadata__") {
      if (Status status = parseMetadata(value, header, where); !status)
        return status;
      continue;
    }
    Expected<SafetensorsEntry> entry = parseEntry(name, value, header, where);
    if (!entry)
      return entry.error();
    header.entries.push_back(std::move(*entry));
  }
  if (Status status = checkEnd(header, fileSize, where); !status)
    return status;
  if (Status status = checkSizes(header, where); !status)
    return status;
  if (Status status = checkCover(header, fileSize, where); !status)
    return status;
  return header;
}

Expected<SafetensorsFile> SafetensorsFile::open(const std::filesystem::path &path) {
  Expected<MappedFile> mapped = MappedFile::open(path);
  if (!mapped)
    return mapped.error();
  Expected<SafetensorsHeader> header =
      parseSafetensorsHeader(mapped->bytes(), mapped->size(), path.string());
  if (!header)
    return header.error();
  SafetensorsFile file;
  file.filePath = path;
  file.hash = hashHex(mapped->bytes(0, header->bytes));
  file.mapped = std::move(*mapped);
  file.header = std::move(*header);
  return file;
}

const SafetensorsEntry *SafetensorsFile::find(std::string_view name) const {
  auto it = std::lower_bound(
      header.entries.begin(), header.entries.end(), name,
      [](const SafetensorsEntry &entry, std::string_view wanted) { return entry.name < wanted; });
  return it != header.entries.end() && it->name == name ? &*it : nullptr;
}

} // namespace gemma
