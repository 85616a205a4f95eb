// Float operations that do not compute but say where a value comes from: an f32 is a hash of the
// operation and of its operands' bits. Two results that are made by the same operations of the same
// inputs in the same order have equal hashes; other ones almost surely have not. The rules, why
// they are these, and what they cannot see: docs/decisions/0014-provenance-hashes.md.
#pragma once

#include "runtime/abi/EmuAbi.h"

#include <cstdint>
#include <span>

namespace gemma::emu {

/// The hash of an operation (EmuProvenance) on the bits of its f32 operands; those that it does not
/// have are ignored. Never 0, 1, infinite or NaN but where the operation exactly gives that.
uint32_t provenanceOf(uint32_t op, uint32_t a, uint32_t b, uint32_t c);

/// The hash of c + Σ a[k]·b[k] as one instruction adds it: c itself where every product is 0. `a`
/// and `b` are bf16, as many of both, at most 16.
uint32_t provenanceOfSum(uint32_t c, std::span<const uint16_t> a, std::span<const uint16_t> b);

} // namespace gemma::emu
