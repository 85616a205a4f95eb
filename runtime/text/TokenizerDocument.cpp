#include "runtime/text/TokenizerDocument.h"

#include "runtime/support/JsonBuilder.h"

namespace gemma {
namespace {

using nlohmann::json;

/// Builds the DOM, but puts what stands in model.vocab and model.merges into lists.
class DocumentBuilder : public JsonBuilder {
public:
  using JsonBuilder::JsonBuilder;

  TokenizerDocument document;

  bool null() override { return state == State::Dom ? JsonBuilder::null() : wrong(nullptr); }
  bool boolean(bool value) override {
    return state == State::Dom ? JsonBuilder::boolean(value) : wrong(value);
  }
  bool number_integer(number_integer_t value) override {
    return state == State::Dom ? JsonBuilder::number_integer(value) : wrong(value);
  }
  bool number_float(number_float_t value, const string_t &text) override {
    return state == State::Dom ? JsonBuilder::number_float(value, text) : wrong(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (state == State::Dom)
      return JsonBuilder::number_unsigned(value);
    if (state != State::Vocab)
      return wrong(value);
    document.vocabIds.push_back(value);
    return true;
  }

  bool string(string_t &value) override {
    switch (state) {
    case State::Dom:
      return JsonBuilder::string(value);
    case State::Vocab:
      return wrong(value);
    case State::Merges: {
      size_t space = value.find(' ');
      if (space == value.npos || value.find(' ', space + 1) != value.npos)
        return wrong(value);
      std::string_view text = value;
      return appendPart(text.substr(0, space)) && appendPart(text.substr(space + 1));
    }
    case State::Pair:
      return document.mergeParts.size() < pairEnd ? appendPart(value) : wrongForm("more");
    }
    return false;
  }

  bool key(string_t &name) override {
    if (state == State::Vocab) {
      document.vocabNames.append(name);
      return true;
    }
    if (state != State::Dom)
      return true; // start_object has refused
    if (depth() == 1)
      inModel = name == "model";
    if (depth() == 2)
      table = !inModel           ? State::Dom
              : name == "vocab"  ? State::Vocab
              : name == "merges" ? State::Merges
                                 : State::Dom;
    return JsonBuilder::key(name);
  }

  bool start_object(std::size_t size) override {
    if (state != State::Dom)
      return wrong(json::object());
    enter(State::Vocab);
    return JsonBuilder::start_object(size);
  }
  bool end_object() override {
    leave();
    return JsonBuilder::end_object();
  }

  bool start_array(std::size_t size) override {
    if (state == State::Merges) {
      state = State::Pair;
      pairEnd = document.mergeParts.size() + 2;
      return true;
    }
    if (state != State::Dom)
      return wrong(json::array());
    enter(State::Merges);
    return JsonBuilder::start_array(size);
  }
  bool end_array() override {
    if (state == State::Pair) {
      if (document.mergeParts.size() != pairEnd)
        return wrongForm("fewer");
      state = State::Merges;
      return true;
    }
    leave();
    return JsonBuilder::end_array();
  }

private:
  enum class State : uint8_t { Dom, Vocab, Merges, Pair };

  /// A container begins in the DOM: is it the table that its key promises?
  void enter(State kind) {
    if (depth() == 2 && inModel && table == kind)
      state = kind;
    table = State::Dom;
  }
  void leave() { state = State::Dom; }

  bool appendPart(std::string_view part) {
    if (part.empty())
      return wrong(json(""));
    document.mergeParts.append(part);
    return true;
  }

  bool wrong(const json &value) { return wrongForm(describe(value)); }

  bool wrongForm(const std::string &got) {
    if (state == State::Vocab)
      return fail(
          "model.vocab: " + quoteForMessage(document.vocabNames[document.vocabNames.size() - 1]) +
          ": expected an id, got " + got);
    size_t parts = state == State::Pair ? pairEnd - 2 : document.mergeParts.size();
    return fail("model.merges[" + std::to_string(parts / 2) + "]: expected two token names, got " +
                got);
  }

  State state = State::Dom;
  State table = State::Dom; ///< what the last key of `model` names
  bool inModel = false;
  size_t pairEnd = 0;
};

} // namespace

Expected<TokenizerDocument> readTokenizerDocument(std::string_view text, std::string_view where) {
  JsonLimits limits;
  DocumentBuilder builder(where, limits);
  if (!json::sax_parse(text.begin(), text.end(), &builder))
    return badInput(std::move(builder.failure));
  builder.document.rest = std::move(builder.root);
  return std::move(builder.document);
}

} // namespace gemma
