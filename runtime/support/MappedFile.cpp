#include "runtime/support/MappedFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gemma {

static Error systemError(const std::filesystem::path &path, const char *what, int code) {
  return badInput(path.string() + ": " + what + ": " + std::strerror(code));
}

Expected<MappedFile> MappedFile::open(const std::filesystem::path &path) {
  // Non-blocking: a pipe of this name must not make the tool hang before it can be refused.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return systemError(path, "cannot open", errno);
  struct stat info;
  if (::fstat(file, &info) != 0) {
    int code = errno;
    ::close(file);
    return systemError(path, "cannot stat", code);
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(file);
    return badInput(path.string() + ": expected a regular file");
  }
  MappedFile mapped;
  if (info.st_size > 0) { // an empty range cannot be mapped
    void *address = ::mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (address == MAP_FAILED) {
      int code = errno;
      ::close(file);
      return systemError(path, "cannot map", code);
    }
    mapped.start = static_cast<const std::byte *>(address);
    mapped.length = size_t(info.st_size);
  }
  ::close(file); // the mapping keeps the file
  return mapped;
}

MappedFile::~MappedFile() {
  if (start)
    ::munmap(const_cast<std::byte *>(start), length);
}

void MappedFile::advise(uint64_t offset, uint64_t count, int advice, bool wholePagesOnly) const {
  if (offset >= length)
    return;
  uint64_t page = uint64_t(::sysconf(_SC_PAGESIZE));
  uint64_t end = offset + std::min<uint64_t>(count, length - offset);
  uint64_t begin = offset / page * page;
  if (wholePagesOnly) {
    begin = (offset + page - 1) / page * page;
    if (end != length)
      end = end / page * page;
  }
  if (begin < end) // advice only: a kernel that refuses it changes no result
    (void)::madvise(const_cast<std::byte *>(start) + begin, end - begin, advice);
}

void MappedFile::adviseSequential(uint64_t offset, uint64_t count) const {
  advise(offset, count, MADV_SEQUENTIAL, false);
}

void MappedFile::adviseWillNeed(uint64_t offset, uint64_t count) const {
  advise(offset, count, MADV_WILLNEED, false);
}

void MappedFile::adviseDontNeed(uint64_t offset, uint64_t count) const {
  advise(offset, count, MADV_DONTNEED, true);
}

} // namespace gemma
