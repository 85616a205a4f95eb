#include "runtime/support/Memory.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace gemma {

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 // Linux 5.14
#endif

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
  memory.start = static_cast<std::byte *>(mapping);
  if (slack) {
    memory.start += (hugePage - reinterpret_cast<uintptr_t>(mapping) % hugePage) % hugePage;
    // A wish: where there are no huge pages, small ones do.
    (void)::madvise(memory.start, size_t(bytes), MADV_HUGEPAGE);
  }
  return memory;
}

Status PageMemory::populate(std::string_view what) const {
  if (length == 0)
    return {};
  constexpr uint64_t page = 4096; // where `start` lies, and the mapping ends
  if (::madvise(start, size_t((length + page - 1) / page * page), MADV_POPULATE_WRITE) == 0)
    return {};
  if (errno != EINVAL)
    return badInput("cannot allocate " + std::to_string(length) + " bytes for " +
                    std::string(what) + ": " + std::strerror(errno));
  // A system before 5.14 does not know how: writing does it, and every page is zeros so far.
  for (uint64_t at = 0; at < length; at += page)
    *reinterpret_cast<volatile char *>(start + at) = 0;
  return {};
}

PageMemory::~PageMemory() {
  if (mapping)
    ::munmap(mapping, mappedBytes);
}

} // namespace gemma
