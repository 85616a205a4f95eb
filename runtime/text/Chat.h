// Conversations to prompts: the published Gemma 4 instruction template, for text without tools and
// without thinking. test/data/chat/cases.jsonl holds what it renders.
//
//   <bos> then for each message   <|turn>ROLE\nCONTENT<turn|>\n
//   and to ask for a reply        <|turn>model\n<|channel>thought\n<channel|>
//
// ROLE is `model` for the assistant and `system` for a developer who speaks first. CONTENT has
// outer white space trimmed, each text part by itself; thoughts (<|channel>...<channel|>) of
// earlier replies are left out. The empty thought at the end tells the model not to think; a
// tokenizer without these two tokens belongs to a model that does not, and then it is absent and
// nothing is taken for a thought.
#pragma once

#include "runtime/support/Status.h"
#include "runtime/text/Tokenizer.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gemma {

enum class ChatRole : uint8_t { System, Developer, User, Assistant };

struct ChatMessage {
  ChatRole role;
  std::vector<std::string> parts; ///< of text
};

struct ChatRequest {
  std::vector<ChatMessage> messages; ///< at least one
  bool addGenerationPrompt = true;   ///< ask for a reply
};

/// Reads the OpenAI form: {"messages": [{"role", "content": string or [{"type": "text", "text"}]}],
/// "add_generation_prompt"}. Refused, by name: tools and tool calls, parts that are not text,
/// `enable_thinking` other than false (the template's default), unknown roles. Other keys are
/// ignored, among them a reply's `reasoning`, which the template does not show again.
Expected<ChatRequest> readChatRequest(const nlohmann::json &request);

/// What a model's tokenizer says about its conversations.
struct ChatFormat {
  bool thoughtChannel = true; ///< it has <|channel> and <channel|>

  /// Refused if the tokenizer has no control tokens <|turn> and <turn|>.
  static Expected<ChatFormat> of(const Tokenizer &tokenizer);
};

/// A part of a prompt: the name of a control token, or text in which no name is one.
struct PromptPiece {
  bool control = false;
  std::string text;

  bool operator==(const PromptPiece &) const = default;
};

/// The whole prompt. Text pieces never stand beside each other.
std::vector<PromptPiece> renderChat(const ChatRequest &request, ChatFormat format = {});

/// The prompt as one string, as the template renders it. Not for encoding: it no longer tells typed
/// control tokens from real ones.
std::string promptText(std::span<const PromptPiece> pieces);

/// The ids of a prompt. Text never gives a control token. Refused if the tokenizer lacks one.
Expected<std::vector<int32_t>> encodePieces(const Tokenizer &tokenizer,
                                            std::span<const PromptPiece> pieces);

/// renderChat in the tokenizer's format, encoded; begins with the only <bos>.
Expected<std::vector<int32_t>> encodeChat(const Tokenizer &tokenizer, const ChatRequest &request);

/// The ids of a raw text to be continued. It may hold control tokens, which count as such; <bos>
/// is put first unless the text begins with it.
std::vector<int32_t> encodeCompletion(const Tokenizer &tokenizer, std::string_view text);

/// How many tokens two sequences have in common at the start.
size_t sharedPrefix(std::span<const int32_t> left, std::span<const int32_t> right);

} // namespace gemma
