// Typed reading of one JSON object, where every mismatch becomes a line in a list of problems.
#pragma once

#include "runtime/support/Json.h"
#include "runtime/support/Problems.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gemma {

/// The values that an integer key may have, both ends included.
struct IntegerRange {
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
};

/// A JSON object, its place (file and key path) and where to report. A null value counts as an
/// absent key. The readers return nothing for an absent key, and nothing plus a problem for a value
/// that does not fit; the required ones report the absent key too. The object must outlive this.
class JsonObject {
public:
  /// `path`: the key path of the object in the file, empty for the outermost one.
  JsonObject(const nlohmann::json &object, std::string file, std::string path, Problems &problems);

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The value, or null if it is absent or a JSON null.
  const nlohmann::json *find(std::string_view key) const;

  /// A JSON integer: 16.5, 16.0 and "16" are not.
  std::optional<int64_t> integer(std::string_view key, IntegerRange range = {}) const;
  std::optional<int64_t> requiredInteger(std::string_view key, IntegerRange range = {}) const;
  /// Any JSON number: 30 and 30.0 are the same.
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string> string(std::string_view key) const;
  std::optional<JsonObject> object(std::string_view key) const;

  /// "file: path.key".
  std::string place(std::string_view key) const;
  /// Reports that `key` has another value than `expected` (or none).
  void mismatch(std::string_view key, std::string_view expected) const;

  const nlohmann::json &value() const { return *json; }
  Problems &problems() const { return *sink; }

private:
  const nlohmann::json *json;
  std::string file;
  std::string path;
  Problems *sink;
};

/// `value` as an integer, if it is a JSON integer that 64 bits with sign hold.
std::optional<int64_t> asInteger(const nlohmann::json &value);

} // namespace gemma
