#include "runtime/support/Json.h"

#include <cstdio>
#include <vector>

namespace gemma {

using nlohmann::json;

static constexpr size_t kMaxQuoted = 80;

std::string quoteForMessage(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (out.size() > kMaxQuoted) {
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

namespace {

/// Builds the DOM from SAX events and stops at the first breach of a limit. The library's own
/// parser keeps its nesting on the heap, so depth costs no stack.
class BoundedBuilder : public nlohmann::json_sax<json> {
public:
  BoundedBuilder(std::string_view where, const JsonLimits &limits) : where(where), limits(limits) {}

  json root;
  std::string failure; ///< set when an event returned false

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  bool number_float(number_float_t value, const string_t &) override { return place(value); }
  bool string(string_t &value) override { return place(std::move(value)); }
  bool binary(binary_t &) override { return fail("binary value"); }

  bool start_object(std::size_t) override { return open(json::object()); }
  bool key(string_t &name) override {
    json &object = *open_.back();
    if (object.contains(name)) {
      std::string noun(open_.size() == 1 ? limits.topLevelNoun : std::string_view("key"));
      return fail("duplicate " + noun + " " + plain(name));
    }
    nextKey = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."; the quotation of the
    // last token may be long and need not be valid UTF-8.
    std::string_view what = error.what();
    if (size_t end = what.find("] "); end != what.npos)
      what.remove_prefix(end + 2);
    if (size_t end = what.find("; last read"); end != what.npos)
      what = what.substr(0, end);
    std::string text;
    for (unsigned char c : what.substr(0, 200))
      text += c >= 0x20 && c < 0x7f ? char(c) : '?';
    return fail("not valid JSON (byte " + std::to_string(position) + "): " + text);
  }

private:
  /// A name as it stands when it is plain, else quoted.
  static std::string plain(const std::string &name) {
    bool isPlain = !name.empty() && name.size() <= kMaxQuoted;
    for (unsigned char c : name)
      isPlain = isPlain && c > 0x20 && c < 0x7f;
    return isPlain ? name : quoteForMessage(name);
  }

  bool fail(const std::string &message) {
    failure = std::string(where) + ": " + message;
    return false;
  }

  template <typename T> json *insert(T &&value) {
    if (++values > limits.maxValues) {
      fail("more than " + std::to_string(limits.maxValues) + " JSON values");
      return nullptr;
    }
    if (open_.empty()) {
      root = json(std::forward<T>(value));
      return &root;
    }
    // Only the innermost container grows, so the pointers in open_ stay valid.
    json &parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(json(std::forward<T>(value)));
      return &parent.back();
    }
    json &slot = parent[nextKey];
    slot = json(std::forward<T>(value));
    return &slot;
  }

  template <typename T> bool place(T &&value) { return insert(std::forward<T>(value)) != nullptr; }

  bool open(json container) {
    if (open_.size() >= limits.maxDepth)
      return fail("JSON nested deeper than " + std::to_string(limits.maxDepth) + " levels");
    json *slot = insert(std::move(container));
    if (!slot)
      return false;
    open_.push_back(slot);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view where;
  const JsonLimits &limits;
  std::vector<json *> open_; ///< the containers around the next value, outermost first
  std::string nextKey;
  size_t values = 0;
};

} // namespace

Expected<json> parseJson(std::string_view text, std::string_view where, const JsonLimits &limits) {
  if (text.empty())
    return badInput(std::string(where) + ": expected JSON, got an empty file");
  BoundedBuilder builder(where, limits);
  bool ok = json::sax_parse(text.begin(), text.end(), &builder);
  if (!ok)
    return badInput(std::move(builder.failure));
  return std::move(builder.root);
}

} // namespace gemma
