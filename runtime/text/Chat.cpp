#include "runtime/text/Chat.h"

#include <algorithm>
#include <iterator>

namespace gemma {
namespace {

constexpr std::string_view bos = "<bos>";
constexpr std::string_view turnStart = "<|turn>";
constexpr std::string_view turnEnd = "<turn|>";
constexpr std::string_view channelStart = "<|channel>";
constexpr std::string_view channelEnd = "<channel|>";

/// Builds pieces; joins text with text.
class PromptBuilder {
public:
  void control(std::string_view name) { pieces.push_back({true, std::string(name)}); }

  void text(std::string_view text) {
    if (text.empty())
      return;
    if (pieces.empty() || pieces.back().control)
      pieces.push_back({false, {}});
    pieces.back().text += text;
  }

  std::vector<PromptPiece> pieces;
};

/// The length of the white space at the start of `text` (one character), or 0. White space is what
/// Python's str.strip removes, which the template's `trim` calls.
size_t leadingSpace(std::string_view text) {
  if (text.empty())
    return 0;
  auto byte = static_cast<uint8_t>(text[0]);
  if ((byte >= 0x09 && byte <= 0x0D) || (byte >= 0x1C && byte <= 0x20))
    return 1;
  static constexpr std::string_view twoBytes[] = {"\xC2\x85", "\xC2\xA0"};
  for (std::string_view space : twoBytes)
    if (text.starts_with(space))
      return 2;
  // U+1680, U+2000..U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
  static constexpr std::string_view threeBytes[] = {
      "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83",
      "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88",
      "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF",
      "\xE2\x81\x9F", "\xE3\x80\x80"};
  for (std::string_view space : threeBytes)
    if (text.starts_with(space))
      return 3;
  return 0;
}

std::string_view trimmed(std::string_view text) {
  while (size_t length = leadingSpace(text))
    text.remove_prefix(length);
  for (;;) {
    size_t length = 1;
    for (; length <= std::min<size_t>(3, text.size()); ++length)
      if (leadingSpace(text.substr(text.size() - length)) == length)
        break;
    if (length > std::min<size_t>(3, text.size()))
      return text;
    text.remove_suffix(length);
  }
}

/// Leaves out what stands between <|channel> and the next <channel|>, or the end of the text. A
/// <channel|> alone goes too.
std::string withoutThoughts(std::string_view text) {
  std::string kept;
  for (;;) {
    size_t end = text.find(channelEnd);
    std::string_view part = text.substr(0, end);
    kept += part.substr(0, part.find(channelStart));
    if (end == text.npos)
      return kept;
    text.remove_prefix(end + channelEnd.size());
  }
}

void renderMessages(const ChatRequest &request, ChatFormat format, PromptBuilder &prompt) {
  bool first = true;
  for (const ChatMessage &message : request.messages) {
    bool isReply = message.role == ChatRole::Assistant;
    prompt.control(turnStart);
    switch (message.role) {
    case ChatRole::System:
      prompt.text("system\n");
      break;
    case ChatRole::Developer:
      prompt.text(first ? "system\n" : "developer\n");
      break;
    case ChatRole::User:
      prompt.text("user\n");
      break;
    case ChatRole::Assistant:
      prompt.text("model\n");
      break;
    }
    for (const std::string &part : message.parts) {
      if (isReply && format.thoughtChannel)
        prompt.text(trimmed(withoutThoughts(part)));
      else
        prompt.text(trimmed(part));
    }
    prompt.control(turnEnd);
    prompt.text("\n");
    first = false;
  }
  if (!request.addGenerationPrompt)
    return;
  prompt.control(turnStart);
  prompt.text("model\n");
  if (format.thoughtChannel) {
    prompt.control(channelStart);
    prompt.text("thought\n");
    prompt.control(channelEnd);
  }
}

} // namespace

Expected<ChatFormat> ChatFormat::of(const Tokenizer &tokenizer) {
  auto hasControl = [&](std::string_view name) {
    std::optional<int32_t> id = tokenizer.tokenId(name);
    return id && tokenizer.isControl(*id);
  };
  for (std::string_view name : {turnStart, turnEnd})
    if (!hasControl(name))
      return badInput("the tokenizer has no control token " + std::string(name) +
                      ": this model has no chat form");
  return ChatFormat{hasControl(channelStart) && hasControl(channelEnd)};
}

std::vector<PromptPiece> renderChat(const ChatRequest &request, ChatFormat format) {
  PromptBuilder prompt;
  prompt.control(bos);
  renderMessages(request, format, prompt);
  return std::move(prompt.pieces);
}

std::string promptText(std::span<const PromptPiece> pieces) {
  std::string text;
  for (const PromptPiece &piece : pieces)
    text += piece.text;
  return text;
}

Expected<std::vector<int32_t>> encodePieces(const Tokenizer &tokenizer,
                                            std::span<const PromptPiece> pieces) {
  std::vector<int32_t> ids;
  for (const PromptPiece &piece : pieces) {
    if (!piece.control) {
      EncodeOptions options;
      options.parseSpecial = false;
      std::vector<int32_t> text = tokenizer.encode(piece.text, options);
      ids.insert(ids.end(), text.begin(), text.end());
      continue;
    }
    std::optional<int32_t> id = tokenizer.tokenId(piece.text);
    if (!id)
      return badInput("the tokenizer has no token " + piece.text);
    ids.push_back(*id);
  }
  return ids;
}

Expected<std::vector<int32_t>> encodeChat(const Tokenizer &tokenizer, const ChatRequest &request) {
  Expected<ChatFormat> format = ChatFormat::of(tokenizer);
  if (!format)
    return format.status();
  return encodePieces(tokenizer, renderChat(request, *format));
}

std::vector<int32_t> encodeCompletion(const Tokenizer &tokenizer, std::string_view text) {
  std::vector<int32_t> ids = tokenizer.encode(text);
  if (ids.empty() || ids[0] != tokenizer.bosId())
    ids.insert(ids.begin(), tokenizer.bosId());
  return ids;
}

size_t sharedPrefix(std::span<const int32_t> left, std::span<const int32_t> right) {
  return std::distance(left.begin(), std::ranges::mismatch(left, right).in1);
}

} // namespace gemma
