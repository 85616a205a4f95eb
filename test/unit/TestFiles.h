// Files for unit tests: the source tree's data, and folders that go away with the test.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <unistd.h>

namespace gemma::test {

/// A path of the source tree.
inline std::filesystem::path sourcePath(std::string_view relative) {
  return std::filesystem::path(GEMMA_SOURCE_DIR) / relative;
}

inline std::string readText(const std::filesystem::path &path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void writeText(const std::filesystem::path &path, std::string_view text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  EXPECT_TRUE(out.flush()) << path;
}

/// An empty folder, removed with everything in it at the end of the test.
class TempFolder {
public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "gemma-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr) << pattern;
    folder = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  TempFolder(const TempFolder &) = delete;
  TempFolder &operator=(const TempFolder &) = delete;

  const std::filesystem::path &path() const { return folder; }
  std::filesystem::path operator/(std::string_view name) const { return folder / name; }
  /// Copies the files of `from` (not its subfolders) into this folder.
  void fill(const std::filesystem::path &from) {
    for (const auto &file : std::filesystem::directory_iterator(from))
      if (file.is_regular_file())
        std::filesystem::copy_file(file.path(), folder / file.path().filename());
  }

private:
  std::filesystem::path folder;
};

} // namespace gemma::test

/// Expects that `result` (a Status or Expected) is an error whose message contains `part`.
#define EXPECT_ERROR(result, part)                                                                 \
  do {                                                                                             \
    const auto &outcome_ = (result);                                                               \
    if (outcome_.ok())                                                                             \
      ADD_FAILURE() << #result << ": expected an error with \"" << (part) << "\", got none";       \
    else                                                                                           \
      EXPECT_NE(outcome_.error().message.find(part), std::string::npos)                            \
          << "expected \"" << (part) << "\" in: " << outcome_.error().message;                     \
  } while (false)

/// Expects that `result` is no error.
#define EXPECT_OK(result)                                                                          \
  do {                                                                                             \
    const auto &outcome_ = (result);                                                               \
    if (!outcome_.ok())                                                                            \
      ADD_FAILURE() << #result << ": " << outcome_.error().message;                                \
  } while (false)
