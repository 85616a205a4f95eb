#include "runtime/support/Memory.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace gemma {

static constexpr uint64_t hugePage = uint64_t(2) << 20;

Expected<PageMemory> PageMemory::allocate(uint64_t bytes, std::string_view what) {
  PageMemory memory;
  memory.length = bytes;
  if (bytes == 0)
    return memory;
  // Room to begin on a huge page; pages that are never touched cost no memory.
  uint64_t slack = bytes >= hugePage ? hugePage : 0;
  memory.mappedBytes = size_t(bytes + slack);
  void *mapping = ::mmap(nullptr, memory.mappedBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) {
    memory.mappedBytes = 0;
    return badInput("cannot allocate " + std::to_string(bytes) + " bytes for " + std::string(what) +
                    ": " + std::strerror(errno));
  }
  memory.mapping = mapping;
  uintptr_t address = reinterpret_cast<uintptr_t>(mapping);
  if (slack) {
    address = (address + hugePage - 1) / hugePage * hugePage;
    // A wish: where there are no huge pages, small ones do.
    (void)::madvise(reinterpret_cast<void *>(address), size_t(bytes), MADV_HUGEPAGE);
  }
  memory.start = reinterpret_cast<std::byte *>(address);
  return memory;
}

PageMemory::~PageMemory() {
  if (mapping)
    ::munmap(mapping, mappedBytes);
}

} // namespace gemma
