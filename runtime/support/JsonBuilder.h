// The SAX handler behind parseJson, for readers that do not want all of a file as a DOM.
#pragma once

#include "runtime/support/Json.h"

#include <vector>

namespace gemma {

/// Builds the DOM from SAX events and stops at the first breach of a limit. A reader of a large
/// file derives from it and takes the events of the large part for itself. The library's own parser
/// keeps its nesting on the heap, so depth costs no stack.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
public:
  JsonBuilder(std::string_view where, const JsonLimits &limits) : where(where), limits(limits) {}

  nlohmann::json root;
  std::string failure; ///< set when an event returned false

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  bool number_float(number_float_t value, const string_t &) override { return place(value); }
  bool string(string_t &value) override { return place(std::move(value)); }
  bool binary(binary_t &) override { return fail("binary value"); }

  bool start_object(std::size_t) override { return open(nlohmann::json::object()); }
  bool key(string_t &name) override;
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(nlohmann::json::array()); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t position, const std::string &,
                   const nlohmann::detail::exception &error) override;

protected:
  /// Stops the parse with `where: message`; returns false for an event to return.
  bool fail(const std::string &message);

  /// How many containers are open around the next value.
  size_t depth() const { return open_.size(); }

private:
  template <typename T> nlohmann::json *insert(T &&value) {
    if (++values > limits.maxValues) {
      fail("more than " + std::to_string(limits.maxValues) + " JSON values");
      return nullptr;
    }
    if (open_.empty()) {
      root = nlohmann::json(std::forward<T>(value));
      return &root;
    }
    // Only the innermost container grows, so the pointers in open_ stay valid.
    nlohmann::json &parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(nlohmann::json(std::forward<T>(value)));
      return &parent.back();
    }
    nlohmann::json &slot = parent[nextKey];
    slot = nlohmann::json(std::forward<T>(value));
    return &slot;
  }

  template <typename T> bool place(T &&value) { return insert(std::forward<T>(value)) != nullptr; }

  bool open(nlohmann::json container) {
    if (open_.size() >= limits.maxDepth)
      return fail("JSON nested deeper than " + std::to_string(limits.maxDepth) + " levels");
    nlohmann::json *slot = insert(std::move(container));
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
  std::vector<nlohmann::json *> open_; ///< the containers around the next value, outermost first
  std::string nextKey;
  size_t values = 0;
};

} // namespace gemma
