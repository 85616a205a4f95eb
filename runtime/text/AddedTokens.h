// Added tokens: names that are cut out of the raw text before anything else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gemma {

/// A trie over the names of the added tokens. A search costs at most `maxNameBytes` steps a byte of
/// text; most bytes begin no name and cost one.
class AddedTokens {
public:
  /// Longer names are refused at load: they bound the time of a search.
  static constexpr size_t maxNameBytes = 1024;

  struct Match {
    int32_t id;
    size_t length; ///< bytes
  };

  AddedTokens();

  /// Adds a name (1 to maxNameBytes bytes). `control` names match only where control tokens are
  /// asked for. False if the name is there already.
  bool insert(std::string_view name, int32_t id, bool control);

  /// The longest name that `text` begins with.
  std::optional<Match> longestAt(std::string_view text, bool withControl) const;

  /// Whether some name begins with this byte.
  bool mayStart(uint8_t byte) const { return roots[byte] != none; }

private:
  static constexpr uint32_t none = 0;
  struct Node {
    uint32_t firstChild = none;
    uint32_t nextSibling = none;
    int32_t id = -1; ///< of the name that ends here, or -1
    uint8_t byte = 0;
    bool control = false;
  };

  uint32_t child(uint32_t parent, uint8_t byte) const;

  std::array<uint32_t, 256> roots;
  std::vector<Node> nodes; ///< nodes[0] is unused: index 0 means none
};

} // namespace gemma
