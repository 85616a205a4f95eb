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
