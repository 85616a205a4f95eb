#include "runtime/text/AddedTokens.h"

#include <cassert>

namespace gemma {

AddedTokens::AddedTokens() : nodes(1) { roots.fill(none); }

uint32_t AddedTokens::child(uint32_t parent, uint8_t byte) const {
  uint32_t node = nodes[parent].firstChild;
  while (node != none && nodes[node].byte != byte)
    node = nodes[node].nextSibling;
  return node;
}

bool AddedTokens::insert(std::string_view name, int32_t id, bool control) {
  assert(!name.empty() && name.size() <= maxNameBytes);
  auto addNode = [&](uint8_t byte) {
    Node node;
    node.byte = byte;
    nodes.push_back(node);
    return static_cast<uint32_t>(nodes.size() - 1);
  };
  auto first = static_cast<uint8_t>(name[0]);
  if (roots[first] == none)
    roots[first] = addNode(first);
  uint32_t node = roots[first];
  for (char character : name.substr(1)) {
    auto byte = static_cast<uint8_t>(character);
    uint32_t next = child(node, byte);
    if (next == none) {
      next = addNode(byte);
      nodes[next].nextSibling = nodes[node].firstChild;
      nodes[node].firstChild = next;
    }
    node = next;
  }
  if (nodes[node].id >= 0)
    return false;
  nodes[node].id = id;
  nodes[node].control = control;
  return true;
}

std::optional<AddedTokens::Match> AddedTokens::longestAt(std::string_view text,
                                                         bool withControl) const {
  std::optional<Match> best;
  if (text.empty())
    return best;
  uint32_t node = roots[static_cast<uint8_t>(text[0])];
  for (size_t length = 1; node != none; ++length) {
    if (nodes[node].id >= 0 && (withControl || !nodes[node].control))
      best = Match{nodes[node].id, length};
    if (length == text.size())
      break;
    node = child(node, static_cast<uint8_t>(text[length]));
  }
  return best;
}

} // namespace gemma
