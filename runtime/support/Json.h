// Strict, bounded JSON: what nlohmann::json would accept and a file from outside must not bring.
#pragma once

#include "runtime/support/Status.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace gemma {

struct JsonLimits {
  size_t maxDepth = 64;                  ///< nested arrays and objects
  size_t maxValues = size_t(4) << 20;    ///< a DOM value costs some 50 bytes of memory
  std::string_view topLevelNoun = "key"; ///< what a key of the outermost object is, for messages
};

/// Parses one JSON text. Refused: invalid UTF-8, anything after the value, nesting deeper than the
/// limit (without recursion), a key given twice in one object (the key is named), numbers that no
/// double holds. Integers outside 64 bits become floating point, so that reading them as integers
/// fails. `where` (a file name) starts each message.
Expected<nlohmann::json> parseJson(std::string_view text, std::string_view where,
                                   const JsonLimits &limits = {});

/// A value in a few words for a message: `16.5`, `"2"`, `an array of 3 values`; ASCII, bounded.
std::string describe(const nlohmann::json &value);

inline constexpr size_t kMaxQuoted = 80; ///< characters of a name from a file in a message

/// `text` in double quotes with everything but printable ASCII escaped, cut at `most` characters:
/// for names that come from a file. What a user typed is quoted whole, with `most` = text.size().
/// `text` need not be valid UTF-8.
std::string quoteForMessage(std::string_view text, size_t most = kMaxQuoted);

} // namespace gemma
