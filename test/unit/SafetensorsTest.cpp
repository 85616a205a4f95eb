// safetensors files: each rule of the format seen to fire, round trips, damage at every position.
#include "runtime/checkpoint/Safetensors.h"

#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/support/Hash.h"
#include "test/unit/TestFiles.h"

#include <cstring>

using namespace gemma;
using namespace gemma::test;

static constexpr char kWhere[] = "f.safetensors";

/// A file of this header and `dataBytes` bytes of data.
static std::string fileOf(const std::string &header, size_t dataBytes) {
  uint64_t length = header.size();
  std::string file(reinterpret_cast<const char *>(&length), sizeof length);
  return file + header + std::string(dataBytes, '\x11');
}

static Expected<SafetensorsHeader> parseBytes(const std::string &file) {
  // A copy of exactly this size: a read past it is seen by the sanitizer.
  std::vector<char> exact(file.begin(), file.end());
  return parseSafetensorsHeader(std::as_bytes(std::span(exact)), exact.size(), kWhere);
}

static Expected<SafetensorsHeader> parse(const std::string &header, size_t dataBytes) {
  return parseBytes(fileOf(header, dataBytes));
}

/// One tensor "a" with these three values as JSON texts.
static std::string entry(const char *dtype, const char *shape, const char *offsets) {
  return std::string(R"({"a":{"dtype":)") + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}}";
}

TEST(SafetensorsHeaderTest, ReadsEntriesAndMetadata) {
  Expected<SafetensorsHeader> header =
      parse(R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],)"
            R"("data_offsets":[8,20]},"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}   )",
            20);
  ASSERT_TRUE(header.ok()) << header.error().message;
  ASSERT_EQ(header->entries.size(), 2u);
  EXPECT_EQ(header->metadata.at("format"), "pt");
  const SafetensorsEntry &a = header->entries[0], &b = header->entries[1];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, ScalarType::I64);
  EXPECT_EQ(a.bytes, 8u);
  EXPECT_EQ(a.offset, header->bytes);
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.type, ScalarType::BF16);
  EXPECT_EQ(b.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(b.offset, header->bytes + 8);
}

TEST(SafetensorsHeaderTest, KnowsEveryType) {
  const std::pair<const char *, int> kTypes[] = {
      {"F64", 8},  {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},    {"I32", 4},
      {"I16", 2},  {"I8", 1},  {"U8", 1},      {"U16", 2},     {"U32", 4},    {"U64", 8},
      {"BOOL", 1}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto &[name, bytes] : kTypes) {
    std::string dtype = "\"" + std::string(name) + "\"";
    std::string offsets = "[0," + std::to_string(3 * bytes) + "]";
    EXPECT_OK(parse(entry(dtype.c_str(), "[3]", offsets.c_str()), size_t(3 * bytes)));
  }
}

TEST(SafetensorsHeaderTest, EmptyFilesAndTensorsAreLegal) {
  EXPECT_OK(parse("{}", 0));
  EXPECT_OK(parse(entry("\"F32\"", "[0,7]", "[0,0]"), 0));
  // An empty tensor may lie between two others.
  EXPECT_OK(parse(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
                  R"("c":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
                  3));
}

struct HeaderFault {
  const char *name;
  std::string header;
  size_t dataBytes;
  const char *message;
};

static void PrintTo(const HeaderFault &fault, std::ostream *out) { *out << fault.name; }

class SafetensorsFault : public testing::TestWithParam<HeaderFault> {};

TEST_P(SafetensorsFault, IsRefused) {
  const HeaderFault &fault = GetParam();
  Expected<SafetensorsHeader> header = parse(fault.header, fault.dataBytes);
  EXPECT_ERROR(header, fault.message);
  EXPECT_ERROR(header, kWhere);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, SafetensorsFault,
    testing::Values(
        HeaderFault{"LengthOne", "{", 0, "header length: expected at least 2 bytes, got 1"},
        HeaderFault{"LeadingSpace", " {}", 0, "expected a JSON object, got \" \""},
        HeaderFault{"Array", "[]", 0, "expected a JSON object, got \"[\""},
        HeaderFault{"Text", "{\"a\"", 0, "not valid JSON"},
        HeaderFault{"TrailingJson", "{}{}", 0, "not valid JSON"},
        HeaderFault{"EntryNumber", "{\"a\":5}", 0, "tensor \"a\": expected an object, got 5"},
        HeaderFault{"DtypeAbsent", R"({"a":{"shape":[],"data_offsets":[0,1]}})", 1,
                    "dtype: expected a string, got nothing"},
        HeaderFault{"DtypeNumber", entry("5", "[]", "[0,1]"), 1, "dtype: expected a string, got 5"},
        HeaderFault{"DtypeUnknown", entry("\"F12\"", "[]", "[0,1]"), 1, "got \"F12\""},
        HeaderFault{"DtypeLowerCase", entry("\"bf16\"", "[]", "[0,2]"), 2, "got \"bf16\""},
        HeaderFault{"ShapeAbsent", R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1,
                    "shape: expected a list of non-negative integers, got nothing"},
        HeaderFault{"ShapeNumber", entry("\"U8\"", "1", "[0,1]"), 1, "shape: expected a list"},
        HeaderFault{"ShapeNegative", entry("\"U8\"", "[-1]", "[0,1]"), 1, "got [-1]"},
        HeaderFault{"ShapeFraction", entry("\"U8\"", "[1.0]", "[0,1]"), 1, "got [1.0]"},
        HeaderFault{"ShapeTooLarge", entry("\"U8\"", "[18446744073709551615]", "[0,1]"), 1,
                    "shape: expected a list"},
        HeaderFault{"ProductOverflows", entry("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0,
                    "more than 2^64 bytes"},
        HeaderFault{"BytesOverflow", entry("\"F64\"", "[2305843009213693952]", "[0,0]"), 0,
                    "more than 2^64 bytes"},
        HeaderFault{"OffsetsAbsent", R"({"a":{"dtype":"U8","shape":[1]}})", 1,
                    "data_offsets: expected two non-negative integers, got nothing"},
        HeaderFault{"OffsetsThree", entry("\"U8\"", "[1]", "[0,1,2]"), 1, "got [0, 1, 2]"},
        HeaderFault{"OffsetsNegative", entry("\"U8\"", "[1]", "[-1,0]"), 1, "got [-1, 0]"},
        HeaderFault{"OffsetsString", entry("\"U8\"", "[1]", "[\"0\",1]"), 1, "got [\"0\", 1]"},
        HeaderFault{"OffsetsReversed", entry("\"U8\"", "[1]", "[1,0]"), 1,
                    "end not before the begin"},
        HeaderFault{"OffsetsPastEnd", entry("\"U8\"", "[9]", "[0,9]"), 8, "past the end"},
        HeaderFault{"OffsetsHuge",
                    entry("\"U8\"", "[9]", "[9223372036854775798,9223372036854775807]"), 9,
                    "past the end"},
        HeaderFault{"RangeTooLong", entry("\"F32\"", "[2]", "[0,9]"), 9,
                    "expected 8 bytes (shape [2] of F32), got 9"},
        HeaderFault{"RangeTooShort", entry("\"F32\"", "[2]", "[0,4]"), 4,
                    "expected 8 bytes (shape [2] of F32), got 4"},
        HeaderFault{"GapAtStart", entry("\"U8\"", "[1]", "[1,2]"), 2,
                    "expected its data to begin at 0, got 1"},
        HeaderFault{"TrailingBytes", entry("\"U8\"", "[1]", "[0,1]"), 4, "got 3 bytes more"},
        HeaderFault{"OnlyBytes", "{}", 5, "got 5 bytes more"},
        HeaderFault{"Overlap",
                    R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                    R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                    6, "\"a\" and \"b\" overlap: expected the second to begin at 4, got 2"},
        HeaderFault{"Gap",
                    R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                    R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                    5, "\"b\": expected its data to begin at 2, got 3"},
        HeaderFault{"DuplicateName",
                    R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                    R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                    2, "duplicate tensor name a"},
        HeaderFault{"MetadataNumber", R"({"__metadata__":{"a":1}})", 0,
                    "__metadata__.\"a\": expected a string, got 1"},
        HeaderFault{"MetadataText", R"({"__metadata__":"a"})", 0,
                    "__metadata__: expected an object"},
        HeaderFault{"Deep", R"({"a":[[[[[[]]]]]]})", 0, "nested deeper than 4"}),
    [](const testing::TestParamInfo<HeaderFault> &info) { return std::string(info.param.name); });

TEST(SafetensorsHeaderTest, BoundsTheHeaderLength) {
  auto withLength = [](uint64_t length, size_t rest) {
    return std::string(reinterpret_cast<const char *>(&length), 8) + std::string(rest, ' ');
  };
  EXPECT_ERROR(parseBytes(""), "need 8 bytes, have 0");
  EXPECT_ERROR(parseBytes("1234567"), "need 8 bytes, have 7");
  EXPECT_ERROR(parseBytes(withLength(0, 0)), "got 0");
  EXPECT_ERROR(parseBytes(withLength(100, 20)), "need 108 bytes, have 28");
  EXPECT_ERROR(parseBytes(withLength(100'000'000, 20)), "need 100000008 bytes, have 28");
  EXPECT_ERROR(parseBytes(withLength(100'000'001, 20)), "at most 100000000 bytes");
  EXPECT_ERROR(parseBytes(withLength(UINT64_MAX, 20)), "at most 100000000 bytes");
  EXPECT_ERROR(parseBytes(withLength(UINT64_MAX - 7, 20)), "at most 100000000 bytes");
}

// ---- damage: whatever happens to a header, the answer is a message or a consistent header

/// Parses and, if that works, checks that every tensor lies inside the file.
static void expectSane(const std::string &file) {
  Expected<SafetensorsHeader> header = parseBytes(file);
  if (!header) {
    EXPECT_FALSE(header.error().message.empty());
    return;
  }
  for (const SafetensorsEntry &entry : header->entries) {
    EXPECT_LE(entry.offset, file.size());
    EXPECT_LE(entry.bytes, file.size() - entry.offset);
  }
}

TEST(SafetensorsFuzzTest, EveryByteFlippedAndEveryTruncation) {
  const std::string good = readText(sourcePath("test/data/models/bad/base/model.safetensors"));
  uint64_t length;
  std::memcpy(&length, good.data(), 8);
  const size_t headerEnd = 8 + length;
  ASSERT_TRUE(parseBytes(good).ok());
  for (size_t at = 0; at < headerEnd; ++at)
    for (unsigned char flip : {0x01, 0x10, 0x80}) {
      std::string bad = good;
      bad[at] = char(bad[at] ^ flip);
      expectSane(bad);
    }
  for (size_t size = 0; size < headerEnd; ++size)
    EXPECT_FALSE(parseBytes(good.substr(0, size)).ok()) << size;
  for (size_t size : {headerEnd, headerEnd + 1, good.size() - 1})
    EXPECT_ERROR(parseBytes(good.substr(0, size)),
                 "need " + std::to_string(good.size()) + " bytes, have " + std::to_string(size));
}

// Digits, brackets and quotes in place of one another reach deeper than flipped bits.
TEST(SafetensorsFuzzTest, EveryByteReplacedBySyntax) {
  const std::string good = fileOf(R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                                  R"("b":{"dtype":"U8","shape":[5],"data_offsets":[24,29]}})",
                                  29);
  ASSERT_TRUE(parseBytes(good).ok());
  for (size_t at = 8; at < good.size() - 29; ++at)
    for (char c : std::string_view("019-.eE[]{}\":, \\tfn\xc3"))
      for (bool insert : {false, true}) {
        std::string bad = good;
        if (insert)
          bad.insert(at, 1, c);
        else
          bad[at] = c;
        uint64_t length = bad.size() - 8 - 29;
        std::memcpy(bad.data(), &length, 8);
        expectSane(bad);
      }
}

// ---- files and the writer

TEST(SafetensorsWriterTest, RoundTrip) {
  TempFolder folder;
  std::vector<float> floats = {1, -2.5f, 3e-40f, 0, 5, 6};
  std::vector<uint16_t> halves = {0x3c00, 0x8001, 0x7c00};
  SafetensorsWriter writer;
  writer.setMetadata("format", "pt");
  writer.add("zeta", ScalarType::F32, {2, 3}, std::as_bytes(std::span(floats)));
  writer.add("alpha \"é\"", ScalarType::F16, {3}, std::as_bytes(std::span(halves)));
  writer.add("empty", ScalarType::I8, {0, 4}, std::span<const std::byte>());
  writer.add("streamed", ScalarType::U8, {3'000'000}, [](FileWriter &out) -> Status {
    for (int i = 0; i < 3; ++i)
      if (Status status = out.write(std::string(1'000'000, char('a' + i))); !status)
        return status;
    return {};
  });
  EXPECT_OK(writer.write(folder / "f.safetensors"));

  Expected<SafetensorsFile> file = SafetensorsFile::open(folder / "f.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->metadata().at("format"), "pt");
  EXPECT_EQ(file->entries().size(), 4u);
  const SafetensorsEntry *zeta = file->find("zeta");
  ASSERT_TRUE(zeta);
  EXPECT_EQ(zeta->type, ScalarType::F32);
  EXPECT_EQ(zeta->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(zeta->offset % 8, 0u);
  EXPECT_EQ(std::memcmp(file->data(*zeta).data(), floats.data(), 24), 0);
  const SafetensorsEntry *alpha = file->find("alpha \"é\"");
  ASSERT_TRUE(alpha);
  EXPECT_EQ(std::memcmp(file->data(*alpha).data(), halves.data(), 6), 0);
  const SafetensorsEntry *streamed = file->find("streamed");
  ASSERT_TRUE(streamed);
  EXPECT_EQ(char(file->data(*streamed)[2'999'999]), 'c');
  EXPECT_FALSE(file->find("beta"));
}

TEST(SafetensorsWriterTest, RefusesWhatTheFormatForbids) {
  TempFolder folder;
  std::vector<std::byte> byte(1);
  auto writeWith = [&](const std::function<void(SafetensorsWriter &)> &add) {
    SafetensorsWriter writer;
    add(writer);
    return writer.write(folder / "f.safetensors");
  };
  EXPECT_ERROR(writeWith([&](SafetensorsWriter &writer) {
                 writer.add("a", ScalarType::U8, {1}, byte);
                 writer.add("a", ScalarType::U8, {1}, byte);
               }),
               "two safetensors entries named \"a\"");
  EXPECT_ERROR(writeWith([&](SafetensorsWriter &writer) {
                 writer.add("__metadata__", ScalarType::U8, {1}, byte);
               }),
               "__metadata__");
  EXPECT_ERROR(
      writeWith([&](SafetensorsWriter &writer) { writer.add("a", ScalarType::U8, {-1}, byte); }),
      "shape [-1]");
  EXPECT_ERROR(
      writeWith([&](SafetensorsWriter &writer) { writer.add("a", ScalarType::F32, {1}, byte); }),
      "expected 4 bytes, got 1");
  EXPECT_ERROR(
      writeWith([&](SafetensorsWriter &writer) { writer.add("\xff", ScalarType::U8, {1}, byte); }),
      "no UTF-8");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(SafetensorsFileTest, HashesTheHeaderOnly) {
  TempFolder folder;
  std::string header = entry("\"U8\"", "[4]", "[0,4]");
  std::string file = fileOf(header, 4);
  writeText(folder / "a", file);
  Expected<SafetensorsFile> opened = SafetensorsFile::open(folder / "a");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->headerHash(), hashHex(std::string_view(file).substr(0, 8 + header.size())));
  file.back() = 'x';
  writeText(folder / "b", file);
  EXPECT_EQ(SafetensorsFile::open(folder / "b")->headerHash(), opened->headerHash());
}
