// Stacks and switches between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GEMMA_EMU_ASAN 1
#endif
#endif

namespace gemma::emu {

/// A stack and what is needed to go on where it was left.
struct Fiber {
  void *context = nullptr;
  void *stackBottom = nullptr; ///< lowest address
  size_t stackBytes = 0;
  void *owner = nullptr; ///< for `entry`
#ifdef GEMMA_EMU_ASAN
  void *fakeStack = nullptr;
#endif

  /// Makes the next switch to this fiber call `entry(this)`, which must not return. The stack must
  /// be set; nothing that was on it is looked at again.
  void prepare(void (*entry)(Fiber *self));
  /// Leaves `from` (what runs now) and goes on with `to`. With `fromEnds`, `from` is never resumed.
  static void change(Fiber &from, Fiber &to, bool fromEnds = false);

private:
  void (*start)(Fiber *) = nullptr;
  friend struct FiberEntry;
};

/// Memory for stacks: each of them ends in a page that cannot be touched.
class StackPool {
public:
  static constexpr size_t stackBytes = 64 << 10;

  StackPool() = default;
  StackPool(const StackPool &) = delete;
  ~StackPool();
  /// Makes `count` stacks be there; false if the system has no memory.
  bool reserve(size_t count);
  void assign(size_t index, Fiber &fiber) const;

private:
  uint8_t *memory = nullptr;
  size_t stacks = 0;
};

} // namespace gemma::emu
