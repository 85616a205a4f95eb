#include "runtime/device/emu/Fiber.h"

#include <boost/context/detail/fcontext.hpp>
#include <sys/mman.h>

#ifdef GEMMA_EMU_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gemma::emu {

namespace context = boost::context::detail;

namespace {
struct Change {
  Fiber *from, *to;
};

/// What has to be done on arrival, on the new stack.
void arrived(context::transfer_t transfer) {
  auto *change = static_cast<Change *>(transfer.data);
  change->from->context = transfer.fctx;
#ifdef GEMMA_EMU_ASAN
  // A thread's own stack is learnt from the first switch away from it.
  const void *bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(change->to->fakeStack, &bottom, &bytes);
  if (!change->from->stackBottom) {
    change->from->stackBottom = const_cast<void *>(bottom);
    change->from->stackBytes = bytes;
  }
#endif
}
} // namespace

struct FiberEntry {
  static void run(context::transfer_t transfer) {
    Fiber *self = static_cast<Change *>(transfer.data)->to;
    arrived(transfer);
    self->start(self);
    __builtin_trap();
  }
};

void Fiber::prepare(void (*entry)(Fiber *)) {
  start = entry;
  context = context::make_fcontext(static_cast<uint8_t *>(stackBottom) + stackBytes, stackBytes,
                                   FiberEntry::run);
#ifdef GEMMA_EMU_ASAN
  fakeStack = nullptr;
  // What was on the stack may have been left in the middle.
  __asan_unpoison_memory_region(stackBottom, stackBytes);
#endif
}

void Fiber::change(Fiber &from, Fiber &to, bool fromEnds) {
  Change change{&from, &to};
#ifdef GEMMA_EMU_ASAN
  __sanitizer_start_switch_fiber(fromEnds ? nullptr : &from.fakeStack, to.stackBottom,
                                 to.stackBytes);
#else
  (void)fromEnds;
#endif
  arrived(context::jump_fcontext(to.context, &change));
}

constexpr size_t guardBytes = 4096;

StackPool::~StackPool() {
  if (memory)
    ::munmap(memory, stacks * (stackBytes + guardBytes));
}

bool StackPool::reserve(size_t count) {
  if (count <= stacks)
    return true;
  size_t each = stackBytes + guardBytes;
  void *fresh = ::mmap(nullptr, count * each, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (fresh == MAP_FAILED)
    return false;
  for (size_t i = 0; i < count; ++i)
    ::mprotect(static_cast<uint8_t *>(fresh) + i * each, guardBytes, PROT_NONE);
  if (memory)
    ::munmap(memory, stacks * each);
  memory = static_cast<uint8_t *>(fresh);
  stacks = count;
  return true;
}

void StackPool::assign(size_t index, Fiber &fiber) const {
  // Tops of stacks at the same place of a page would all compete for the same lines of the cache.
  size_t stagger = index * 320 % 4096 / 64 * 64;
  fiber.stackBottom = memory + index * (stackBytes + guardBytes) + guardBytes;
  fiber.stackBytes = stackBytes - stagger;
}

} // namespace gemma::emu
