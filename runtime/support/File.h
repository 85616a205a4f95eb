// Whole files: bounded reading, and writing that leaves either the new file or none.
#pragma once

#include "runtime/support/Status.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace gemma {

class UnfinishedFile;

/// The file's bytes; an error if it is no regular file or has more than `limit` bytes.
Expected<std::string> readWholeFile(const std::filesystem::path &path, uint64_t limit);

/// Buffered writing to an open file.
class FileWriter {
public:
  explicit FileWriter(int descriptor, std::string where);
  ~FileWriter();
  FileWriter(const FileWriter &) = delete;
  FileWriter &operator=(const FileWriter &) = delete;

  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Status flush();
  /// Bytes written so far.
  uint64_t position() const { return total; }

private:
  Status writeThrough(std::span<const std::byte> bytes);

  int descriptor;
  std::string where;
  std::unique_ptr<std::byte[]> buffer;
  size_t buffered = 0;
  uint64_t total = 0;
};

/// A file that is complete but not there yet: for files that are to appear together or not at all.
/// Until commit() it has a temporary name in its folder; it is removed with this object, or by
/// removeUnfinishedFiles().
class StagedFile {
public:
  /// Calls `fill` to write the content, and flushes it to the disk. A device or pipe (/dev/null) is
  /// written directly. On any failure nothing is left behind.
  static Expected<StagedFile> write(const std::filesystem::path &path,
                                    const std::function<Status(FileWriter &)> &fill);
  ~StagedFile();
  StagedFile(StagedFile &&other) noexcept;
  StagedFile &operator=(StagedFile &&) = delete;

  /// Renames it to `path`: a reader sees what was there before or the whole new file.
  Status commit();

private:
  friend Status checkWritable(const std::filesystem::path &path);

  explicit StagedFile(std::filesystem::path path);
  /// Creates the temporary file: its descriptor.
  Expected<int> create();

  std::filesystem::path path;
  std::filesystem::path temporary; ///< empty: there is no such file
  std::unique_ptr<UnfinishedFile> unfinished;
};

/// Refused with the numbers if the disk has no room for a new file of so many bytes at `path`,
/// whose old content stays until then. A device or pipe has.
Status checkRoom(const std::filesystem::path &path, uint64_t bytes);

/// Calls `fill` to write the content into a temporary file in `path`'s folder, flushes it to the
/// disk and renames it to `path`: a reader sees the old file or the whole new one. On any failure
/// the temporary file is removed and `path` is as before. A device or pipe (/dev/null) is written
/// directly.
Status writeFileAtomically(const std::filesystem::path &path,
                           const std::function<Status(FileWriter &)> &fill);
/// As above, for content that is in memory.
Status writeFileAtomically(const std::filesystem::path &path, std::span<const std::byte> content);
inline Status writeFileAtomically(const std::filesystem::path &path, std::string_view content) {
  return writeFileAtomically(path, std::as_bytes(std::span(content)));
}

/// The error with which writeFileAtomically() would begin, if any: for tools that work long before
/// they write. Nothing is left behind.
Status checkWritable(const std::filesystem::path &path);

} // namespace gemma
