#include "runtime/support/Json.h"

#include "runtime/support/JsonBuilder.h"

#include <cstdio>

namespace gemma {

using nlohmann::json;

std::string quoteForMessage(std::string_view text, size_t most) {
  std::string out = "\"";
  size_t taken = 0;
  for (unsigned char c : text) {
    if (taken++ == most) {
      out += "...";
      break;
    }
    if (c == '"' || c == '\\') {
      out += '\\';
      out += char(c);
    } else if (c >= 0x20 && c < 0x7f) {
      out += char(c);
    } else {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", c);
      out += escape;
    }
  }
  return out + '"';
}

std::string describe(const json &value) {
  switch (value.type()) {
  case json::value_t::null:
    return "null";
  case json::value_t::string:
    return quoteForMessage(value.get_ref<const std::string &>());
  case json::value_t::array:
    return "an array of " + std::to_string(value.size()) +
           (value.size() == 1 ? " value" : " values");
  case json::value_t::object:
    return "an object";
  default:
    return value.dump(); // numbers and booleans: short and without strings, cannot throw
  }
}

/// A name as it stands when it is plain, else quoted.
static std::string plain(const std::string &name) {
  bool isPlain = !name.empty() && name.size() <= kMaxQuoted;
  for (unsigned char c : name)
    isPlain = isPlain && c > 0x20 && c < 0x7f;
  return isPlain ? name : quoteForMessage(name);
}

bool JsonBuilder::key(string_t &name) {
  json &object = *open_.back();
  if (object.contains(name)) {
    std::string noun(open_.size() == 1 ? limits.topLevelNoun : std::string_view("key"));
    return fail("duplicate " + noun + " " + plain(name));
  }
  nextKey = std::move(name);
  return true;
}

bool JsonBuilder::parse_error(std::size_t, const std::string &,
                              const nlohmann::detail::exception &error) {
  // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."; the quotation of the
  // last token may be long and need not be valid UTF-8.
  std::string_view what = error.what();
  if (size_t end = what.find("] "); end != what.npos)
    what.remove_prefix(end + 2);
  if (size_t end = what.find("; last read"); end != what.npos)
    what = what.substr(0, end);
  constexpr std::string_view prefix = "parse error at ";
  bool syntax = what.starts_with(prefix);
  if (syntax)
    what.remove_prefix(prefix.size());
  std::string text;
  for (unsigned char c : what.substr(0, 200))
    text += c >= 0x20 && c < 0x7f ? char(c) : '?';
  return fail((syntax ? "not valid JSON at " : "not valid JSON: ") + text);
}

bool JsonBuilder::fail(const std::string &message) {
  failure = std::string(where) + ": " + message;
  return false;
}

Expected<json> parseJson(std::string_view text, std::string_view where, const JsonLimits &limits) {
  if (text.empty())
    return badInput(std::string(where) + ": expected JSON, got an empty file");
  JsonBuilder builder(where, limits);
  bool ok = json::sax_parse(text.begin(), text.end(), &builder);
  if (!ok)
    return badInput(std::move(builder.failure));
  return std::move(builder.root);
}

} // namespace gemma
