// Whole files, mapped files, hashes.
#include "runtime/support/File.h"

#include "runtime/support/Hash.h"
#include "runtime/support/MappedFile.h"
#include "runtime/support/UnfinishedFile.h"
#include "test/unit/TestFiles.h"

#include <algorithm>
#include <sys/stat.h>

using namespace gemma;
using namespace gemma::test;

static size_t filesIn(const std::filesystem::path &folder) {
  return size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(ReadWholeFileTest, ReadsUpToTheLimit) {
  TempFolder folder;
  writeText(folder / "a", "hello");
  writeText(folder / "empty", "");
  Expected<std::string> text = readWholeFile(folder / "a", 5);
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text, "hello");
  EXPECT_ERROR(readWholeFile(folder / "a", 4), "expected at most 4 bytes, got 5");
  EXPECT_EQ(*readWholeFile(folder / "empty", 0), "");
}

TEST(ReadWholeFileTest, RefusesWhatIsNoFile) {
  TempFolder folder;
  EXPECT_ERROR(readWholeFile(folder / "none", 5), "cannot open");
  EXPECT_ERROR(readWholeFile(folder.path(), 5), "expected a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(readWholeFile(folder / "pipe", 5), "expected a regular file"); // must not hang
  EXPECT_ERROR(MappedFile::open(folder / "pipe"), "expected a regular file");
}

TEST(WriteFileTest, WritesAndReplaces) {
  TempFolder folder;
  EXPECT_OK(writeFileAtomically(folder / "a", "one"));
  EXPECT_EQ(readText(folder / "a"), "one");
  EXPECT_OK(writeFileAtomically(folder / "a", "another"));
  EXPECT_EQ(readText(folder / "a"), "another");
  EXPECT_EQ(filesIn(folder.path()), 1u);
}

// Small and large writes cross the buffer in every way.
TEST(WriteFileTest, KeepsTheOrderOfWrites) {
  TempFolder folder;
  std::string wanted;
  EXPECT_OK(writeFileAtomically(folder / "a", [&](FileWriter &writer) -> Status {
    for (size_t size : {3u, 1000u, 0u, 1048576u, 17u, 1048575u, 2u, 3000000u, 5u}) {
      std::string part(size, char('a' + wanted.size() % 26));
      wanted += part;
      if (Status status = writer.write(part); !status)
        return status;
      EXPECT_EQ(writer.position(), wanted.size());
    }
    return {};
  }));
  EXPECT_EQ(readText(folder / "a"), wanted);
}

TEST(WriteFileTest, FailureLeavesTheOldFileAndNothingElse) {
  TempFolder folder;
  writeText(folder / "a", "old");
  Status status = writeFileAtomically(folder / "a", [](FileWriter &writer) -> Status {
    if (Status written = writer.write(std::string(2'000'000, 'x')); !written)
      return written;
    return badInput("stop here");
  });
  EXPECT_ERROR(status, "stop here");
  EXPECT_EQ(readText(folder / "a"), "old");
  EXPECT_EQ(filesIn(folder.path()), 1u);
}

// What a signal handler calls in the middle of writing.
TEST(WriteFileTest, UnfinishedFilesCanBeRemoved) {
  TempFolder folder;
  EXPECT_OK(writeFileAtomically(folder / "done", "x"));
  Status status = writeFileAtomically(folder / "a", [&](FileWriter &) -> Status {
    EXPECT_EQ(filesIn(folder.path()), 2u);
    removeUnfinishedFiles();
    EXPECT_EQ(filesIn(folder.path()), 1u);
    return badInput("the process would end here");
  });
  EXPECT_ERROR(status, "would end here");
  removeUnfinishedFiles();
  EXPECT_EQ(readText(folder / "done"), "x");
  // Places are given back: more files than there are places.
  for (int i = 0; i < 40; ++i)
    UnfinishedFile unfinished(folder / "b");
  writeText(folder / "b", "x");
  UnfinishedFile unfinished(folder / "b");
  removeUnfinishedFiles();
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
}

// Complete, but there only after commit().
TEST(WriteFileTest, StagedFilesAreNotThereYet) {
  TempFolder folder;
  writeText(folder / "a", "old");
  auto stage = [&](const char *name) {
    return StagedFile::write(folder / name, [](FileWriter &writer) { return writer.write("new"); });
  };
  {
    Expected<StagedFile> dropped = stage("a");
    ASSERT_TRUE(dropped.ok());
    EXPECT_EQ(filesIn(folder.path()), 2u);
  }
  EXPECT_EQ(filesIn(folder.path()), 1u);
  Expected<StagedFile> first = stage("a"), second = stage("b"), removed = stage("c");
  ASSERT_TRUE(first.ok() && second.ok() && removed.ok());
  EXPECT_EQ(readText(folder / "a"), "old");
  EXPECT_FALSE(std::filesystem::exists(folder / "b"));
  EXPECT_OK(first->commit());
  EXPECT_OK(second->commit());
  EXPECT_EQ(readText(folder / "a"), "new");
  EXPECT_EQ(readText(folder / "b"), "new");
  removeUnfinishedFiles(); // the third one
  EXPECT_EQ(filesIn(folder.path()), 2u);
  EXPECT_ERROR(removed->commit(), "c: cannot rename to this name");
  // A device has no other name.
  Expected<StagedFile> device =
      StagedFile::write("/dev/null", [](FileWriter &writer) { return writer.write("new"); });
  ASSERT_TRUE(device.ok());
  EXPECT_OK(device->commit());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(WriteFileTest, ReportsBadPlaces) {
  TempFolder folder;
  EXPECT_ERROR(writeFileAtomically(folder / "none/a", "x"), "No such file or directory");
  EXPECT_ERROR(writeFileAtomically(folder.path(), "x"), "got a folder");
  EXPECT_ERROR(writeFileAtomically("/dev/full", "x"), "No space left");
  EXPECT_OK(writeFileAtomically("/dev/null", "x"));
  EXPECT_ERROR(checkWritable(folder / "none/a"), "No such file or directory");
  EXPECT_ERROR(checkWritable(folder.path()), "got a folder");
  EXPECT_ERROR(checkWritable("/proc/a"), "/proc/a: cannot create a file in its folder");
  EXPECT_OK(checkWritable("/dev/null"));
  EXPECT_OK(checkWritable(folder / "a"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(MappedFileTest, MapsBytes) {
  TempFolder folder;
  std::string text(20'000, 'x');
  text += "end";
  writeText(folder / "a", text);
  Expected<MappedFile> opened = MappedFile::open(folder / "a");
  ASSERT_TRUE(opened.ok());
  MappedFile file = std::move(*opened);
  EXPECT_EQ(file.size(), text.size());
  auto end = file.bytes(20'000, 3);
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(end.data()), end.size()), "end");
  // Advice changes no byte, whatever the range.
  for (uint64_t offset : {uint64_t(0), uint64_t(1), uint64_t(4096), uint64_t(20'002), UINT64_MAX})
    for (uint64_t count : {uint64_t(0), uint64_t(1), uint64_t(9000), UINT64_MAX}) {
      file.adviseDontNeed(offset, count);
      file.adviseWillNeed(offset, count);
      file.adviseSequential(offset, count);
    }
  EXPECT_EQ(std::string(reinterpret_cast<const char *>(file.bytes().data()), file.size()), text);
}

TEST(MappedFileTest, EmptyAndAbsent) {
  TempFolder folder;
  writeText(folder / "empty", "");
  Expected<MappedFile> empty = MappedFile::open(folder / "empty");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty->size(), 0u);
  empty->adviseDontNeed(0, 10);
  EXPECT_ERROR(MappedFile::open(folder / "none"), "cannot open");
  EXPECT_ERROR(MappedFile::open(folder.path()), "expected a regular file");
}

// Values from the reference implementation's own library.
TEST(HashTest, KnownValues) {
  EXPECT_EQ(hashHex(""), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hashHex("a"), "a96faf705af16834e6c632b61e964e1f");
  EXPECT_EQ(hashHex("gemma"), "9274001e373c4299808949289a025d88");
}

TEST(HashTest, StreamEqualsOneShotHoweverItIsCut) {
  std::string text;
  for (int i = 0; i < 5000; ++i)
    text += char(i * 31 + i / 7);
  for (size_t piece : {1u, 7u, 64u, 255u, 256u, 257u, 4999u, 5000u}) {
    Hasher hasher;
    for (size_t begin = 0; begin < text.size(); begin += piece) {
      hasher.update(std::string_view(text).substr(begin, piece));
      (void)hasher.digest(); // asking in between changes nothing
    }
    EXPECT_EQ(hasher.digest(), hashHex(text)) << piece;
  }
}
