// Packed weight files: equal to packing at load, and refused when they do not fit.
#include "TestFiles.h"

#include "runtime/support/File.h"
#include "runtime/weights/PackedWeights.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <regex>

using namespace gemma;
using namespace gemma::test;

namespace {

class PackedWeights : public testing::Test {
protected:
  void SetUp() override {
    auto opened = Checkpoint::open(sourcePath("test/data/models/bad/base"));
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint.emplace(std::move(*opened));
    add("embed", {"embed_tokens.weight"}, {32, 16}, ScalarType::BF16, 16, 2, 1, 1024);
    add("norm", {"norm.weight"}, {16}, ScalarType::F32, 0, 1, 1, 64);
    add("gate_up", {"layers.0.mlp.gate_proj.weight", "layers.0.mlp.up_proj.weight"}, {48, 16},
        ScalarType::F32, 16, 1, 2, 4096);
    path = folder.path() / "w";
    EXPECT_OK(packWeightsToFile(program, CheckpointTensors(*checkpoint), origin, 2, path));
  }

  void add(const char *name, std::vector<std::string> sources, std::vector<int64_t> shape,
           ScalarType storage, int64_t panel, int64_t kpack, int64_t interleave, uint64_t bytes) {
    program.weights.push_back(
        {name, std::move(sources), std::move(shape), storage, panel, kpack, interleave, bytes});
  }

  /// The file with one byte changed.
  void damage(size_t at) {
    auto bytes = readWholeFile(path, 1 << 20);
    ASSERT_TRUE(bytes);
    (*bytes)[at] ^= 1;
    EXPECT_OK(writeFileAtomically(path, *bytes));
  }

  TempFolder folder;
  std::optional<Checkpoint> checkpoint;
  Program program;
  std::filesystem::path path;
  std::string origin = std::string(32, 'a');
};

TEST_F(PackedWeights, EqualPackingAtLoad) {
  auto mapped = mapPackedWeights(program, path, origin, true);
  ASSERT_TRUE(mapped) << mapped.error().message;
  auto packed = WeightArena::pack(program, CheckpointTensors(*checkpoint), 1);
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_TRUE(mapped->isMapped());
  EXPECT_FALSE(packed->isMapped());
  EXPECT_EQ(mapped->bytes(), packed->bytes());
  for (size_t i = 0; i < program.weights.size(); ++i) {
    EXPECT_EQ(uintptr_t(mapped->data(i)) % 64, 0u);
    EXPECT_EQ(std::memcmp(mapped->data(i), packed->data(i), program.weights[i].bytes), 0);
  }
}

TEST_F(PackedWeights, OtherRecipesAreRefused) {
  program.weights[1].storage = ScalarType::BF16;
  program.weights[1].bytes = 32;
  EXPECT_ERROR(mapPackedWeights(program, path, origin, false), "packed for another artifact");
}

TEST_F(PackedWeights, AnotherOriginIsRefusedUnlessAskedFor) {
  EXPECT_ERROR(mapPackedWeights(program, path, std::string(32, 'b'), false),
               "packed from other weights");
  EXPECT_TRUE(mapPackedWeights(program, path, "", true));
}

TEST_F(PackedWeights, DamageIsRefused) {
  damage(20);
  EXPECT_ERROR(mapPackedWeights(program, path, origin, false), "header is damaged");
}

TEST_F(PackedWeights, AnotherFileIsRefused) {
  damage(0);
  EXPECT_ERROR(mapPackedWeights(program, path, origin, false), "no packed weights");
}

TEST_F(PackedWeights, AnotherVersionIsRefused) {
  damage(8);
  EXPECT_ERROR(mapPackedWeights(program, path, origin, false), "format 3");
}

TEST_F(PackedWeights, DamagedContentIsFoundOnRequest) {
  damage(4096 + 100);
  EXPECT_TRUE(mapPackedWeights(program, path, origin, false));
  EXPECT_ERROR(mapPackedWeights(program, path, origin, true), "weights are damaged");
}

TEST_F(PackedWeights, TruncationIsRefused) {
  auto bytes = readWholeFile(path, 1 << 20);
  ASSERT_TRUE(bytes);
  for (size_t keep : {bytes->size() - 1, bytes->size() / 2, size_t(4096), size_t(10), size_t(0)}) {
    EXPECT_OK(writeFileAtomically(path, std::string_view(*bytes).substr(0, keep)));
    EXPECT_FALSE(mapPackedWeights(program, path, origin, false)) << keep;
  }
  EXPECT_OK(writeFileAtomically(path, std::string_view(*bytes).substr(0, bytes->size() - 1)));
  EXPECT_ERROR(mapPackedWeights(program, path, origin, false),
               "expected " + std::to_string(bytes->size()) + " bytes, got " +
                   std::to_string(bytes->size() - 1));
}

TEST_F(PackedWeights, PackingTellsHowFarItIs) {
  std::vector<uint64_t> told;
  uint64_t all = 0;
  EXPECT_OK(packWeightsToFile(program, CheckpointTensors(*checkpoint), origin, 2, path,
                              [&](uint64_t done, uint64_t total) {
                                told.push_back(done);
                                all = total;
                              }));
  EXPECT_EQ(told.size(), program.weights.size());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), all);
}

/// Processes that map the same file have its pages once: they are the file's own (proc(5), smaps).
TEST_F(PackedWeights, PagesAreThoseOfTheFile) {
  auto mapped = mapPackedWeights(program, path, origin, true); // which reads all of them
  ASSERT_TRUE(mapped) << mapped.error().message;
  std::ifstream maps("/proc/self/smaps");
  std::string line, seen;
  bool inFile = false;
  while (std::getline(maps, line)) {
    if (line.find('-') < line.find(' ') && line.find('-') != std::string::npos)
      inFile = line.find(path.string()) != std::string::npos;
    else if (inFile && (line.starts_with("Anonymous:") || line.starts_with("Rss:")))
      seen += line + "\n";
  }
  std::smatch match;
  EXPECT_TRUE(std::regex_search(seen, match, std::regex("Rss: +[1-9]"))) << seen;
  EXPECT_TRUE(std::regex_search(seen, match, std::regex("Anonymous: +0 kB"))) << seen;
}

TEST_F(PackedWeights, NoRoomIsSaidBeforePacking) {
  // 2^60 bytes of weights that nobody has: they are not asked for.
  add("huge", {"nowhere"}, {1 << 29, 1 << 29}, ScalarType::F32, 0, 1, 1, uint64_t(1) << 60);
  std::filesystem::path other = folder.path() / "other";
  Status status =
      packWeightsToFile(program, CheckpointTensors(*checkpoint), std::string(32, 'a'), 2, other);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(std::regex_match(status.error().message,
                               std::regex(".*/other: the disk has [0-9]+ MiB free, expected at "
                                          "least 1099511627776 MiB")))
      << status.error().message;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()),
                          std::filesystem::directory_iterator()),
            1); // `path` alone
}

} // namespace
