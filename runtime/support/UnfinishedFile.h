// Files that must not stay behind when a signal ends the process.
#pragma once

#include <filesystem>

namespace gemma {

/// Names a file that is not finished yet: while this object lives, removeUnfinishedFiles() deletes
/// it. At most 16 at a time and of paths below 4096 bytes; more are not remembered.
class UnfinishedFile {
public:
  explicit UnfinishedFile(const std::filesystem::path &path);
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile &) = delete;
  UnfinishedFile &operator=(const UnfinishedFile &) = delete;

private:
  int slot = -1;
};

/// For signal handlers (async-signal-safe): the process is to end right after.
void removeUnfinishedFiles() noexcept;

} // namespace gemma
