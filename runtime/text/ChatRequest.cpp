// Reads conversations in the OpenAI message form.
#include "runtime/support/Json.h"
#include "runtime/text/Chat.h"

#include <nlohmann/json.hpp>

#include <optional>

namespace gemma {
namespace {

using nlohmann::json;

Error wrong(const std::string &where, const std::string &expected, const json &got) {
  return badInput(where + ": expected " + expected + ", got " + describe(got));
}

std::optional<ChatRole> roleFromName(std::string_view name) {
  if (name == "system")
    return ChatRole::System;
  if (name == "developer")
    return ChatRole::Developer;
  if (name == "user")
    return ChatRole::User;
  if (name == "assistant" || name == "model")
    return ChatRole::Assistant;
  return std::nullopt;
}

Status readContent(const json &content, const std::string &where, ChatMessage &message) {
  if (content.is_string()) {
    message.parts.push_back(content.get<std::string>());
    return {};
  }
  // A reply may have no content.
  if (content.is_null() && message.role == ChatRole::Assistant)
    return {};
  if (!content.is_array())
    return wrong(where, "a string or an array of text parts", content);
  for (size_t i = 0; i < content.size(); ++i) {
    std::string partWhere = where + "[" + std::to_string(i) + "]";
    const json &part = content[i];
    if (!part.is_object() || !part.contains("type"))
      return wrong(partWhere, "an object with a type", part);
    if (part["type"] != "text")
      return wrong(partWhere + ".type", "\"text\" (other parts are not supported)", part["type"]);
    if (!part.contains("text") || !part["text"].is_string())
      return badInput(partWhere + ".text: expected a string");
    message.parts.push_back(part["text"].get<std::string>());
  }
  return {};
}

/// `object[key]` asks for something: it is neither absent, null, false nor empty.
bool asksFor(const json &object, const char *key) {
  auto found = object.find(key);
  return found != object.end() && !found->empty() && *found != false;
}

Status readMessage(const json &value, const std::string &where, ChatRequest &request) {
  if (!value.is_object())
    return wrong(where, "an object", value);
  auto role = value.find("role");
  if (role == value.end() || !role->is_string())
    return badInput(where + ".role: expected a string");
  const auto &name = role->get_ref<const std::string &>();
  if (name == "tool" || asksFor(value, "tool_calls") || asksFor(value, "tool_responses"))
    return badInput(where + ": tool calls and their results are not supported");
  std::optional<ChatRole> known = roleFromName(name);
  if (!known)
    return wrong(where + ".role", "system, developer, user or assistant", *role);
  ChatMessage message{*known, {}};
  auto content = value.find("content");
  if (Status status =
          readContent(content == value.end() ? json() : *content, where + ".content", message);
      !status)
    return status;
  request.messages.push_back(std::move(message));
  return {};
}

} // namespace

Expected<ChatRequest> readChatRequest(const json &value) {
  if (!value.is_object())
    return wrong("request", "an object", value);
  for (const char *key : {"tools", "enable_thinking"})
    if (asksFor(value, key))
      return badInput(std::string(key) + ": not supported");
  auto messages = value.find("messages");
  if (messages == value.end() || !messages->is_array() || messages->empty())
    return wrong("messages", "an array of at least one message",
                 messages == value.end() ? json() : *messages);
  ChatRequest request;
  if (auto add = value.find("add_generation_prompt"); add != value.end()) {
    if (!add->is_boolean())
      return wrong("add_generation_prompt", "true or false", *add);
    request.addGenerationPrompt = add->get<bool>();
  }
  for (size_t i = 0; i < messages->size(); ++i)
    if (Status status = readMessage((*messages)[i], "messages[" + std::to_string(i) + "]", request);
        !status)
      return status;
  return request;
}

} // namespace gemma
