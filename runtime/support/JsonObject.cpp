#include "runtime/support/JsonObject.h"

namespace gemma {

using nlohmann::json;

std::optional<int64_t> asInteger(const json &value) {
  if (!value.is_number_integer())
    return std::nullopt;
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX))
    return std::nullopt;
  return value.get<int64_t>();
}

JsonObject::JsonObject(const nlohmann::json &object, std::string file, std::string path,
                       Problems &problems)
    : json(&object), file(std::move(file)), path(std::move(path)), sink(&problems) {}

const nlohmann::json *JsonObject::find(std::string_view key) const {
  auto it = json->find(key);
  return it == json->end() || it->is_null() ? nullptr : &*it;
}

std::string JsonObject::place(std::string_view key) const {
  std::string full = path.empty() ? std::string(key) : path + "." + std::string(key);
  return file + ": " + full;
}

void JsonObject::mismatch(std::string_view key, std::string_view expected) const {
  const nlohmann::json *value = find(key);
  sink->add(place(key) + ": expected " + std::string(expected) + ", got " +
            (value ? describe(*value) : "nothing"));
}

/// What an integer of this range is called in a message.
static std::string integerText(IntegerRange range) {
  if (range.min == INT64_MIN && range.max == INT64_MAX)
    return "an integer";
  return "an integer from " + std::to_string(range.min) + " to " + std::to_string(range.max);
}

std::optional<int64_t> JsonObject::integer(std::string_view key, IntegerRange range) const {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::nullopt;
  std::optional<int64_t> number = asInteger(*value);
  if (!number || *number < range.min || *number > range.max) {
    mismatch(key, integerText(range));
    return std::nullopt;
  }
  return number;
}

std::optional<int64_t> JsonObject::requiredInteger(std::string_view key, IntegerRange range) const {
  if (!has(key)) {
    mismatch(key, integerText(range));
    return std::nullopt;
  }
  return integer(key, range);
}

std::optional<double> JsonObject::number(std::string_view key) const {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_number()) {
    mismatch(key, "a number");
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<bool> JsonObject::boolean(std::string_view key) const {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_boolean()) {
    mismatch(key, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> JsonObject::string(std::string_view key) const {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_string()) {
    mismatch(key, "a string");
    return std::nullopt;
  }
  return value->get<std::string>();
}

std::optional<JsonObject> JsonObject::object(std::string_view key) const {
  const nlohmann::json *value = find(key);
  if (!value)
    return std::nullopt;
  if (!value->is_object()) {
    mismatch(key, "an object");
    return std::nullopt;
  }
  std::string inner = path.empty() ? std::string(key) : path + "." + std::string(key);
  return JsonObject(*value, file, std::move(inner), *sink);
}

} // namespace gemma
