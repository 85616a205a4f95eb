// XXH3-128, the hash of files, artifacts and kernels here. It finds damage and change; it is no
// protection against somebody who wants two texts with one hash.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gemma {

/// Hash of a stream of bytes; equal to the one-shot hash however the stream is cut.
class Hasher {
public:
  Hasher();
  Hasher(Hasher &&) noexcept;
  Hasher &operator=(Hasher &&) noexcept;
  ~Hasher();

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  /// 32 lower-case hex digits, most significant first; the stream may go on afterwards.
  std::string digest() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// One-shot hash: 32 lower-case hex digits.
std::string hashHex(std::span<const std::byte> bytes);
inline std::string hashHex(std::string_view text) {
  return hashHex(std::as_bytes(std::span(text)));
}

} // namespace gemma
