#include "runtime/support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>

namespace gemma {

struct Hasher::State {
  XXH3_state_t xxh; // declared 64-byte aligned, which new respects
};

static std::string hex(XXH128_hash_t hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)hash.high64,
                (unsigned long long)hash.low64);
  return text;
}

Hasher::Hasher() : state(std::make_unique<State>()) { XXH3_128bits_reset(&state->xxh); }
Hasher::Hasher(Hasher &&) noexcept = default;
Hasher &Hasher::operator=(Hasher &&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state->xxh, bytes.data(), bytes.size());
}

std::string Hasher::digest() const { return hex(XXH3_128bits_digest(&state->xxh)); }

std::string hashHex(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

} // namespace gemma
