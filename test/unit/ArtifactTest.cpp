#include "runtime/engine/Artifact.h"
#include "runtime/engine/Inspect.h"
#include "runtime/engine/ProgramCheck.h"
#include "runtime/support/File.h"
#include "runtime/support/Hash.h"
#include "test/unit/SampleProgram.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace gemma;

namespace {

class ArtifactTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() /
             ("gemma-artifact-" + std::to_string(::getpid()) + "-" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder);
    path = folder / "model.gemma";
    artifact.program = samples::sampleProgram();
    artifact.modelName = "sample";
    artifact.compilerVersion = "0.1.0";
    artifact.requiredFeatures = {"host-x86_64"};
    artifact.eosIds = {1, 106};
    artifact.objects = {{"baseline", ObjectKind::Host, "", {"sse2"}, std::string(1000, 'a')},
                        {"avx2", ObjectKind::Host, "", {"avx2", "fma"}, std::string(77, '\0')},
                        {"sm_80/k", ObjectKind::Ptx, "k", {}, ".version 8.0"}};
    artifact.tokenizer = "{\"tokenizer\": true}";
    artifact.generation.emplace();
    artifact.generation->temperature = 0.7;
    artifact.generation->topK = 64;
    artifact.checkpointFolder = "/models/sample";
    artifact.checkpointFiles = {
        {"model.safetensors", 123, std::string(32, 'f'), std::string(32, 'e')}};
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string written() {
    Status status = writeArtifact(path, artifact);
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return *readWholeFile(path, 1 << 24);
  }

  /// The message that a file of these bytes is refused with; empty if it is accepted.
  std::string refusal(const std::string &bytes) {
    std::filesystem::path other = folder / "other.gemma";
    // Not writeFileAtomically, which waits for the disk.
    std::ofstream(other, std::ios::binary) << bytes;
    Expected<Artifact> read = readArtifact(other);
    return read ? "" : read.error().message;
  }

  /// Makes the hash fit again after a change.
  static void seal(std::string &bytes) {
    uint64_t body;
    std::memcpy(&body, bytes.data() + 16, 8);
    std::string hashed = bytes.substr(0, 24) + bytes.substr(64, body);
    bytes.replace(32, 32, hashHex(hashed));
  }

  std::filesystem::path folder, path;
  Artifact artifact;
};

TEST_F(ArtifactTest, RoundTrip) {
  written();
  Expected<Artifact> read = readArtifact(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->program, artifact.program);
  EXPECT_EQ(read->modelName, "sample");
  EXPECT_EQ(read->eosIds, artifact.eosIds);
  EXPECT_EQ(read->objects, artifact.objects);
  EXPECT_EQ(read->tokenizer, artifact.tokenizer);
  EXPECT_EQ(read->tokenizerConfig, std::nullopt);
  EXPECT_EQ(read->generation->temperature, 0.7);
  EXPECT_EQ(read->generation->topK, 64);
  EXPECT_EQ(read->checkpointFolder, "/models/sample");
  EXPECT_EQ(read->checkpointFiles, artifact.checkpointFiles);
  EXPECT_TRUE(looksLikeArtifact(path));
  EXPECT_FALSE(looksLikeArtifact(folder));
}

TEST_F(ArtifactTest, InspectShowsEveryPart) {
  written();
  Expected<Artifact> read = readArtifact(path);
  ASSERT_TRUE(read.ok());
  std::string text = inspectText(*read);
  for (const char *part :
       {"artifact ", "model sample", "avx2, 77 bytes, needs avx2 fma",
        "embed 11x8xf32, rows, 352 bytes", "c0 ring, heads 1, dim 4", "k1 grid (R ceildiv 3)",
        "when (8 + (T * -1)) >= 0", "(read tokens, read @embed, write arena+64 [T, 8] f32, ",
        "readwrite workspace+320 128 bytes, readwrite tickets 16 bytes) embed", "readwrite @c1.v"})
    EXPECT_TRUE(text.find(part) != std::string::npos) << part << " in\n" << text;
  nlohmann::json object = inspectJson(*read);
  EXPECT_EQ(object["identity"], read->identity);
  EXPECT_EQ(object["program"]["kernels"].size(), 2u);
  EXPECT_EQ(object["memory"]["weights"], 384);
}

TEST_F(ArtifactTest, InspectShowsRowsThatLieApart) {
  artifact.program.variants[0].launches[0].arguments[2].shape = {2, 2};
  std::string text = inspectText(artifact);
  EXPECT_NE(text.find("write arena+64 [T, 2, 2] f32 stride 8, "), std::string::npos) << text;
}

TEST_F(ArtifactTest, BytesDependOnContentAlone) { EXPECT_EQ(written(), written()); }

TEST_F(ArtifactTest, FolderIsOutsideOfTheIdentity) {
  written();
  std::string identity = readArtifact(path)->identity;
  EXPECT_EQ(identity.size(), 32u);
  artifact.checkpointFolder = "/elsewhere";
  artifact.checkpointFiles.clear();
  written();
  EXPECT_EQ(readArtifact(path)->identity, identity);
  artifact.eosIds.push_back(50);
  written();
  EXPECT_NE(readArtifact(path)->identity, identity);
}

TEST_F(ArtifactTest, EveryTruncationIsRefused) {
  std::string bytes = written();
  for (size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 97)
    EXPECT_NE(refusal(bytes.substr(0, length)), "") << length;
  EXPECT_NE(refusal(bytes.substr(0, bytes.size() - 1)), "");
  EXPECT_NE(refusal(bytes + "x"), "");
}

TEST_F(ArtifactTest, EveryFlippedBitIsRefused) {
  std::string bytes = written();
  size_t tried = 0;
  for (size_t at = 0; at < bytes.size(); at += at < 128 || at + 400 > bytes.size() ? 1 : 53)
    for (int bit = int(at % 3); bit < 8; bit += 5, ++tried) {
      std::string damaged = bytes;
      damaged[at] = char(damaged[at] ^ (1 << bit));
      EXPECT_NE(refusal(damaged), "") << at << " bit " << bit;
    }
  EXPECT_GT(tried, 500u);
}

TEST_F(ArtifactTest, NamesTheVersionThatDiffers) {
  std::string bytes = written(), changed = bytes;
  changed[8] = 9;
  seal(changed);
  EXPECT_NE(refusal(changed).find("format version 5, got 9"), std::string::npos);
  changed = bytes;
  changed[12] = 9;
  seal(changed);
  EXPECT_NE(refusal(changed).find("kernel ABI version 2, got 9"), std::string::npos);
  EXPECT_NE(refusal("{}").find("not an artifact"), std::string::npos);
}

TEST_F(ArtifactTest, NamesTheUnknownFeature) {
  artifact.requiredFeatures.push_back("teleport");
  written();
  Expected<Artifact> read = readArtifact(path);
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.error().message.find("\"teleport\""), std::string::npos) << read.error().message;
}

// A file whose hashes are right can still be wrong inside: whatever byte of the manifest is
// changed, reading it ends well or with a message.
TEST_F(ArtifactTest, ChangedManifestNeverCrashes) {
  std::string bytes = written();
  uint64_t manifest;
  std::memcpy(&manifest, bytes.data() + 64, 8);
  size_t refused = 0;
  for (size_t at = 64; at < 72 + manifest; at += 29)
    for (char replacement : {'9', '-', '}', '"', '\xff'}) {
      std::string damaged = bytes;
      damaged[at] = replacement;
      seal(damaged);
      refused += !refusal(damaged).empty();
    }
  EXPECT_GT(refused, 100u);
}

TEST_F(ArtifactTest, WriterRefusesInconsistentPrograms) {
  artifact.program.weights[0].bytes += 4;
  EXPECT_FALSE(writeArtifact(path, artifact).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

//===----------------------------------------------------------------------===//
// checkProgram
//===----------------------------------------------------------------------===//

std::string problem(const Program &program) {
  Status status = checkProgram(program, "test");
  return status.ok() ? "" : status.error().message;
}

TEST(ProgramCheck, AcceptsTheSample) { EXPECT_EQ(problem(samples::sampleProgram()), ""); }

TEST(ProgramCheck, Refuses) {
  auto change = [](auto &&edit) {
    Program program = samples::sampleProgram();
    edit(program);
    return problem(program);
  };
  auto has = [](const std::string &message, const char *part) {
    return message.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                                   : ::testing::AssertionFailure() << message;
  };
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].launches[0].kernel = 2; }), "kernel 2"));
  EXPECT_TRUE(
      has(change([](Program &p) { p.variants[0].launches[0].arguments[1].index = 1; }), "index 1"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].launches[0].arguments.pop_back(); }),
                  "expected 5"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].arenaBytes -= 1; }), "inside the arena"));
  EXPECT_TRUE(has(
      change([](Program &p) { p.variants[0].launches[0].arguments[2].offset = UINT64_MAX - 63; }),
      "inside the arena"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].launches[0].arguments[2].offset = 3; }),
                  "multiple of 2"));
  // 8 rows of 8 elements of 4 bytes, side by side, fill the buffer.
  auto rows = [&](auto &&edit) {
    return change([&](Program &p) { edit(p.variants[0].launches[0].arguments[2]); });
  };
  EXPECT_TRUE(has(rows([](LaunchArgument &a) { a.shape = {9}; }), "rows apart"));
  EXPECT_TRUE(has(rows([](LaunchArgument &a) { a.stride = 9; }), "rows apart and within 256"));
  EXPECT_TRUE(has(rows([](LaunchArgument &a) { a.stride = -1; }), "rows apart"));
  EXPECT_TRUE(has(rows([](LaunchArgument &a) { a.stride = INT64_MAX; }), "rows apart"));
  EXPECT_TRUE(has(rows([](LaunchArgument &a) { a.type = ScalarType::F64; }), "rows apart"));
  EXPECT_TRUE(has(rows([](LaunchArgument &a) {
                    a.shape = {INT64_MAX, INT64_MAX};
                    a.stride = INT64_MAX;
                  }),
                  "rows apart"));
  EXPECT_EQ(rows([](LaunchArgument &a) { a.shape = {2, 2}; }), "");
  EXPECT_EQ(rows([](LaunchArgument &a) { a.extent = 'B'; }), "");
  // What blocks share: counters, and a workspace that lies in the arena apart from the buffers.
  auto shared = [&](size_t argument, auto &&edit) {
    return change([&](Program &p) { edit(p.variants[0].launches[0].arguments[argument]); });
  };
  EXPECT_TRUE(has(shared(4, [](LaunchArgument &a) { a.bytes = 0; }), "positive multiple of 4"));
  EXPECT_TRUE(has(shared(4, [](LaunchArgument &a) { a.bytes = 6; }), "positive multiple of 4"));
  EXPECT_TRUE(has(shared(4, [](LaunchArgument &a) { a.bytes = UINT64_MAX - 3; }), "up to 8 GiB"));
  EXPECT_TRUE(has(shared(3, [](LaunchArgument &a) { a.bytes += 1; }), "inside the arena"));
  EXPECT_TRUE(has(shared(3, [](LaunchArgument &a) { a.offset -= 64; }), "overlap"));
  EXPECT_TRUE(has(change([](Program &p) {
                    p.variants[0].launches[0].arguments[3] = p.variants[0].launches[0].arguments[4];
                  }),
                  "overlap"));
  EXPECT_TRUE(has(change([](Program &p) { p.kernels[0].access[1] = 1; }), "constant"));
  EXPECT_TRUE(has(change([](Program &p) {
                    p.variants[0].launches[1].arguments[3] = p.variants[0].launches[1].arguments[0];
                  }),
                  "overlap"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].launches[0].arguments[0].name = "x"; }),
                  "unknown input"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].launches[1].arguments[3].name = "x"; }),
                  "unknown output"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants[0].launches[1].arguments[2].name = "k"; }),
                  "expected v of a cache of values alone, got k"));
  EXPECT_TRUE(has(change([](Program &p) { p.caches[0].ringPages = 0; }), "ringPages"));
  EXPECT_TRUE(has(change([](Program &p) { p.limits.maxBatch = 257; }), "maxBatch"));
  EXPECT_TRUE(has(change([](Program &p) { p.limits.maxContext = 262145; }), "maxContext"));
  EXPECT_TRUE(
      has(change([](Program &p) { p.weights[0].shape = {INT64_MAX, INT64_MAX}; }), "weights[0]"));
  EXPECT_TRUE(has(change([](Program &p) { p.variants.clear(); }), "at least one"));
  // Ids are the only output that is none of floats.
  EXPECT_TRUE(has(change([](Program &p) { p.outputs[0].type = ScalarType::I32; }),
                  "outputs[0].type: expected a float type, or i32 of top_ids, got i32"));
  EXPECT_EQ(
      change([](Program &p) { p.outputs.push_back({topIdsName, ScalarType::I32, {4}, 'R'}); }), "");
  EXPECT_TRUE(
      has(change([](Program &p) { p.outputs.push_back({topIdsName, ScalarType::I64, {4}, 'R'}); }),
          "got i64"));
}

} // namespace
