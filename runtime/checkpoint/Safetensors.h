// Reader of one safetensors file.
//
// Byte layout (all of it checked; nothing in it is trusted):
//
//   offset 0        8 bytes   header length n, unsigned, little-endian, 2 <= n <= 100 MB, 8 + n <=
//   size offset 8        n bytes   header: one JSON object in UTF-8, begins with '{', may end in
//   spaces
//                               { "NAME": { "dtype": "BF16", "shape": [d0, d1, ...],
//                                           "data_offsets": [begin, end] }, ...,
//                                 "__metadata__": { "KEY": "TEXT", ... }          (optional) }
//   offset 8 + n    the rest  data: row-major little-endian elements; begin and end count from here
//
// The byte ranges, in rising order, cover the data without gap or overlap up to the file's end, and
// each is product(shape) elements long. A name occurs once. Data need not be aligned.
// Source: https://github.com/huggingface/safetensors, section Format.
#pragma once

#include "runtime/support/MappedFile.h"
#include "runtime/support/ScalarType.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemma {

/// One tensor of the header.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;              ///< as the file spells it, "BF16"
  std::optional<ScalarType> type; ///< none for types that only skipped tensors have (F8_E4M3, ...)
  std::vector<int64_t> shape;
  uint64_t offset = 0; ///< of the first byte, from the start of the file
  uint64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries; ///< sorted by name
  std::map<std::string, std::string> metadata;
  uint64_t bytes = 0; ///< 8 + n: where the data begins
};

/// Parses and checks the header of a file of `fileSize` bytes. `start`: the file's first bytes, at
/// least the whole header when the file has one. `where` (the file's name) starts each message.
Expected<SafetensorsHeader> parseSafetensorsHeader(std::span<const std::byte> start,
                                                   uint64_t fileSize, std::string_view where);

/// An open file: its header, parsed, and its data, mapped.
class SafetensorsFile {
public:
  static Expected<SafetensorsFile> open(const std::filesystem::path &path);

  const std::filesystem::path &path() const { return filePath; }
  uint64_t size() const { return mapped.size(); }
  /// XXH3-128 of the length field and the header, 32 hex digits.
  const std::string &headerHash() const { return hash; }
  const std::vector<SafetensorsEntry> &entries() const { return header.entries; }
  const std::map<std::string, std::string> &metadata() const { return header.metadata; }
  /// The entry of that name, or null.
  const SafetensorsEntry *find(std::string_view name) const;
  /// The bytes of an entry of this file (not aligned).
  std::span<const std::byte> data(const SafetensorsEntry &entry) const {
    return mapped.bytes(entry.offset, entry.bytes);
  }
  const MappedFile &file() const { return mapped; }

private:
  SafetensorsFile() = default;

  std::filesystem::path filePath;
  MappedFile mapped;
  SafetensorsHeader header;
  std::string hash;
};

/// safetensors' spelling of a type: "F64", "BF16", "BOOL".
std::string_view safetensorsName(ScalarType type);

/// "[3, 4]", for messages.
std::string shapeText(std::span<const int64_t> shape);

} // namespace gemma
