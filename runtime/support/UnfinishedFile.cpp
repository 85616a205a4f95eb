#include "runtime/support/UnfinishedFile.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace gemma {
namespace {

// A signal handler may take no lock and allocate nothing: fixed places with their own state.
enum State : int { Free, Filling, Named };
struct Slot {
  std::atomic<int> state{Free};
  char path[4096];
};
Slot slots[16];
static_assert(std::atomic<int>::is_always_lock_free);

} // namespace

UnfinishedFile::UnfinishedFile(const std::filesystem::path &path) {
  const std::string &name = path.native();
  if (name.size() >= sizeof(Slot::path))
    return;
  for (int i = 0; i < int(std::size(slots)); ++i) {
    int expected = Free;
    if (!slots[i].state.compare_exchange_strong(expected, Filling))
      continue;
    std::memcpy(slots[i].path, name.c_str(), name.size() + 1);
    slots[i].state.store(Named);
    slot = i;
    return;
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (slot >= 0)
    slots[slot].state.store(Free);
}

void removeUnfinishedFiles() noexcept {
  int error = errno;
  for (Slot &slot : slots)
    if (slot.state.load() == Named)
      ::unlink(slot.path);
  errno = error;
}

} // namespace gemma
