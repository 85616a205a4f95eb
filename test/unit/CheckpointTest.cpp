// Checkpoint folders: the good ones, and faults made here.
#include "runtime/checkpoint/Checkpoint.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/Widen.h"
#include "test/unit/TestFiles.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <map>

using namespace gemma;
using namespace gemma::test;
using nlohmann::json;

static const char *const kBase = "test/data/models/bad/base";

// ---- the good ones

struct GoodCase {
  std::string folder;
  size_t files, tensors;
  uint64_t textBytes, skippedTensors, skippedBytes;
  std::string embedding; ///< the embedding's name in the file
  ScalarType type;
};

static void PrintTo(const GoodCase &good, std::ostream *out) { *out << good.folder; }

class GoodCheckpoint : public testing::TestWithParam<GoodCase> {};

TEST_P(GoodCheckpoint, Opens) {
  const GoodCase &good = GetParam();
  Expected<Checkpoint> checkpoint = Checkpoint::open(sourcePath(good.folder));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->files().size(), good.files);
  for (const CheckpointFile &file : checkpoint->files()) {
    EXPECT_EQ(file.size, std::filesystem::file_size(checkpoint->folder() / file.name));
    EXPECT_EQ(file.headerHash.size(), 32u);
  }
  EXPECT_EQ(checkpoint->tensors().size(), good.tensors);
  EXPECT_EQ(checkpoint->skippedTensors(), good.skippedTensors);
  EXPECT_EQ(checkpoint->skippedBytes(), good.skippedBytes);
  uint64_t bytes = 0;
  for (const auto &[canonical, tensor] : checkpoint->tensors()) {
    EXPECT_EQ(tensor.type, good.type) << canonical;
    EXPECT_TRUE(tensor.fileName.ends_with(canonical)) << tensor.fileName;
    EXPECT_EQ(checkpoint->data(tensor).size(), tensor.bytes);
    bytes += tensor.bytes;
  }
  EXPECT_EQ(bytes, good.textBytes);
  EXPECT_EQ(checkpoint->tensors().at("embed_tokens.weight").fileName, good.embedding);
  EXPECT_EQ(checkpoint->config().tiedHead, !checkpoint->tensors().contains("lm_head.weight"));
  EXPECT_EQ(checkpoint->config().dtype, good.type);
  EXPECT_EQ(checkpoint->eosIds(), (std::vector<int64_t>{1, 106}));
  ASSERT_TRUE(checkpoint->generation());
  EXPECT_EQ(checkpoint->generation()->bosId, 2);
}

static const std::string kFullName = "model.language_model.embed_tokens.weight";

INSTANTIATE_TEST_SUITE_P(Folders, GoodCheckpoint,
                         testing::Values(GoodCase{"test/data/models/narrow-12b", 1, 168, 3242072,
                                                  11, 25776, kFullName, ScalarType::BF16},
                                         GoodCase{"test/data/models/narrow-31b", 3, 168, 6141080,
                                                  29, 54912, kFullName, ScalarType::BF16},
                                         GoodCase{"test/data/models/text-only-f32", 1, 85, 2127224,
                                                  0, 0, "model.embed_tokens.weight",
                                                  ScalarType::F32},
                                         GoodCase{"test/data/models/narrow-12b-tail", 1, 140,
                                                  2472468, 11, 25776, kFullName, ScalarType::F16},
                                         GoodCase{"examples/kjv-mini", 1, 168, 10588312, 0, 0,
                                                  kFullName, ScalarType::BF16}),
                         [](const testing::TestParamInfo<GoodCase> &info) {
                           std::string name =
                               std::filesystem::path(info.param.folder).filename().string();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// ---- faults made here, from a copy of a good folder

/// A tensor to write.
struct Tensor {
  ScalarType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

using Tensors = std::map<std::string, Tensor>;

/// All tensors of bad/base, with the names of its file.
static Tensors baseTensors() {
  Tensors tensors;
  Expected<SafetensorsFile> file = SafetensorsFile::open(sourcePath(kBase) / "model.safetensors");
  EXPECT_OK(file);
  for (const SafetensorsEntry &entry : file->entries()) {
    auto data = file->data(entry);
    tensors[entry.name] = {*entry.type, entry.shape, {data.begin(), data.end()}};
  }
  return tensors;
}

static void writeTensors(const std::filesystem::path &path, const Tensors &tensors) {
  SafetensorsWriter writer;
  for (const auto &[name, tensor] : tensors)
    writer.add(name, tensor.type, tensor.shape, tensor.data);
  EXPECT_OK(writer.write(path));
}

static json baseConfig() { return json::parse(readText(sourcePath(kBase) / "config.json")); }

/// Opens a folder of base's configuration and tensors after `edit`.
static Expected<Checkpoint> openEdited(const std::function<void(Tensors &, json &)> &edit) {
  TempFolder folder;
  Tensors tensors = baseTensors();
  json config = baseConfig();
  edit(tensors, config);
  writeTensors(folder / "model.safetensors", tensors);
  writeText(folder / "config.json", config.dump());
  return Checkpoint::open(folder.path());
}

static const std::string kPrefix = "model.language_model.";
static const std::string kEmbedding = kPrefix + "embed_tokens.weight";

static void untie(json &config) {
  config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = false;
}

TEST(CheckpointTest, TextOnlyPrefix) {
  Expected<Checkpoint> checkpoint = openEdited([](Tensors &tensors, json &) {
    Tensors renamed;
    for (auto &[name, tensor] : tensors)
      renamed["model." + name.substr(kPrefix.size())] = tensor;
    tensors = renamed;
  });
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().at("norm.weight").fileName, "model.norm.weight");
}

TEST(CheckpointTest, MixedPrefixesAreRefused) {
  Expected<Checkpoint> checkpoint = openEdited([](Tensors &tensors, json &) {
    auto node = tensors.extract(kPrefix + "norm.weight");
    node.key() = "model.norm.weight";
    tensors.insert(std::move(node));
  });
  EXPECT_ERROR(checkpoint, "\"model.language_model.norm.weight\": expected shape [16], got no such "
                           "tensor (but one with the prefix model., unlike the others)");
}

TEST(CheckpointTest, OtherPrefixesAreRefused) {
  Expected<Checkpoint> checkpoint = openEdited([](Tensors &tensors, json &) {
    Tensors renamed;
    for (auto &[name, tensor] : tensors)
      renamed["transformer." + name.substr(kPrefix.size())] = tensor;
    tensors = renamed;
  });
  EXPECT_ERROR(checkpoint, "no such tensor");
  EXPECT_ERROR(checkpoint, "\nand ");
}

TEST(CheckpointTest, TiedModelMayRepeatTheEmbedding) {
  Expected<Checkpoint> same = openEdited(
      [](Tensors &tensors, json &) { tensors["lm_head.weight"] = tensors.at(kEmbedding); });
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_FALSE(same->tensors().contains("lm_head.weight"));
  EXPECT_EQ(same->skippedTensors(), 1u);

  // The same values in a wider type are the same head.
  EXPECT_OK(openEdited([](Tensors &tensors, json &) {
    const Tensor &embedding = tensors.at(kEmbedding);
    std::vector<double> values = widenAll(embedding.type, embedding.data);
    auto bytes = std::as_bytes(std::span(values));
    tensors["lm_head.weight"] = {ScalarType::F64, embedding.shape, {bytes.begin(), bytes.end()}};
  }));

  Expected<Checkpoint> differing = openEdited([](Tensors &tensors, json &) {
    Tensor head = tensors.at(kEmbedding);
    head.data[2 * 37] ^= std::byte(1); // element 37
    tensors["lm_head.weight"] = head;
  });
  EXPECT_ERROR(differing, "\"lm_head.weight\": expected the same values as "
                          "\"model.language_model.embed_tokens.weight\" (tie_word_embeddings is "
                          "true), got another value at element 37");
  EXPECT_ERROR(openEdited([](Tensors &tensors, json &) {
                 tensors["lm_head.weight"] = tensors.at(kPrefix + "norm.weight");
               }),
               "got BF16 [16]");
}

TEST(CheckpointTest, UntiedModelNeedsItsHead) {
  EXPECT_ERROR(openEdited([](Tensors &, json &config) { untie(config); }),
               "\"lm_head.weight\": expected shape [32, 16], got no such tensor (needed as "
               "tie_word_embeddings is false)");
  Expected<Checkpoint> untied = openEdited([](Tensors &tensors, json &config) {
    untie(config);
    tensors["lm_head.weight"] = tensors.at(kEmbedding);
    tensors["lm_head.weight"].data[0] ^= std::byte(1);
  });
  ASSERT_TRUE(untied.ok()) << untied.error().message;
  EXPECT_TRUE(untied->tensors().contains("lm_head.weight"));
}

TEST(CheckpointTest, TypesMayBeMixed) {
  Expected<Checkpoint> checkpoint = openEdited([](Tensors &tensors, json &) {
    for (auto &[name, tensor] : tensors)
      if (name.ends_with("norm.weight")) {
        std::vector<double> values = widenAll(tensor.type, tensor.data);
        auto bytes = std::as_bytes(std::span(values));
        tensor = {ScalarType::F64, tensor.shape, {bytes.begin(), bytes.end()}};
      }
  });
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->tensors().at("norm.weight").type, ScalarType::F64);
  EXPECT_EQ(checkpoint->tensors().at("embed_tokens.weight").type, ScalarType::BF16);
}

TEST(CheckpointTest, WeightsMustBeFloats) {
  EXPECT_ERROR(openEdited([](Tensors &tensors, json &) {
                 tensors.at(kPrefix +
                            "norm.weight") = {ScalarType::I8, {16}, std::vector<std::byte>(16)};
               }),
               "\"model.language_model.norm.weight\": expected type F64, F32, BF16 or F16, got I8");
}

TEST(CheckpointTest, ForeignTextTensorsAreRefusedOthersSkipped) {
  auto with = [](const std::string &name) {
    return openEdited([&](Tensors &tensors, json &) {
      tensors[name] = {ScalarType::U8, {3}, std::vector<std::byte>(3)};
    });
  };
  for (const char *name : {"embed_tokens_per_layer.weight", "layers.0.experts.down_proj",
                           "layers.0.router.proj.weight", "layers.0.self_attn.q_proj.bias",
                           "layers.1.per_layer_input_gate.weight"})
    EXPECT_ERROR(with(kPrefix + name), name);
  for (const char *name : {"model.vision_tower.layers.0.mlp.bias", "model.embed_audio.weight",
                           "model.language_model.layers.1.self_attn.v_proj.weight", "extra"}) {
    Expected<Checkpoint> checkpoint = with(name);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->skippedTensors(), 1u) << name;
    EXPECT_EQ(checkpoint->skippedBytes(), 3u) << name;
  }
}

TEST(CheckpointTest, ReportsConfigurationAndTensorsTogether) {
  // Two faults of tensors in one report.
  Expected<Checkpoint> tensors = openEdited([](Tensors &tensors, json &) {
    tensors.erase(kPrefix + "norm.weight");
    tensors.erase(kPrefix + "layers.0.layer_scalar");
  });
  EXPECT_ERROR(tensors, "norm.weight");
  EXPECT_ERROR(tensors, "layers.0.layer_scalar");

  // A wrong key of the configuration and a damaged file in one report.
  TempFolder folder;
  json config = baseConfig();
  config["text_config"]["num_experts"] = 4;
  writeText(folder / "config.json", config.dump());
  writeText(folder / "model.safetensors", "short");
  Expected<Checkpoint> both = Checkpoint::open(folder.path());
  EXPECT_ERROR(both, "num_experts");
  EXPECT_ERROR(both, "need 8 bytes, have 5");
}

TEST(CheckpointTest, TruncatedFileSaysHowMuchIsThere) {
  std::string good = readText(sourcePath(kBase) / "model.safetensors");
  for (size_t cut : {size_t(1), good.size() / 2, good.size() - 20}) {
    TempFolder folder;
    writeText(folder / "config.json", baseConfig().dump());
    writeText(folder / "model.safetensors", std::string_view(good).substr(0, good.size() - cut));
    EXPECT_ERROR(Checkpoint::open(folder.path()),
                 "bytes, have " + std::to_string(good.size() - cut));
  }
}

TEST(CheckpointTest, TensorInTwoShardsIsRefused) {
  TempFolder folder;
  folder.fill(sourcePath("test/data/models/bad/base-sharded"));
  Tensors extra;
  extra[kEmbedding] = baseTensors().at(kEmbedding);
  writeTensors(folder / "third.safetensors", extra);
  json index = json::parse(readText(folder / "model.safetensors.index.json"));
  index["weight_map"]["more"] = "third.safetensors";
  writeText(folder / "model.safetensors.index.json", index.dump());
  EXPECT_ERROR(Checkpoint::open(folder.path()), "expected each tensor in one file");
}

TEST(CheckpointTest, EveryMissingShardIsNamed) {
  TempFolder folder;
  folder.fill(sourcePath("test/data/models/narrow-31b"));
  std::filesystem::remove(folder / "model-00001-of-00003.safetensors");
  std::filesystem::remove(folder / "model-00003-of-00003.safetensors");
  Expected<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  EXPECT_ERROR(checkpoint, "model-00001-of-00003.safetensors: no such file");
  EXPECT_ERROR(checkpoint, "model-00003-of-00003.safetensors: no such file");
}

TEST(CheckpointTest, BadIndexIsNamed) {
  auto openWithIndex = [](const std::string &index) {
    TempFolder folder;
    folder.fill(sourcePath("test/data/models/bad/base-sharded"));
    writeText(folder / "model.safetensors.index.json", index);
    return Checkpoint::open(folder.path());
  };
  EXPECT_ERROR(openWithIndex("{}"), "weight_map: expected an object, got nothing");
  EXPECT_ERROR(openWithIndex("[]"), "expected a JSON object");
  EXPECT_ERROR(openWithIndex("{"), "not valid JSON");
  EXPECT_ERROR(openWithIndex(R"({"weight_map": {}})"), "at least one tensor");
  for (const char *name : {"", ".", "..", "/etc/passwd", "../x", "a/b", "a\\\\b", "a\\u0000b"})
    EXPECT_ERROR(openWithIndex(std::string(R"({"weight_map": {"t": ")") + name + "\"}}"),
                 "weight_map.\"t\": expected the name of a file in this folder");
  EXPECT_ERROR(openWithIndex(R"({"weight_map": {"t": 5}})"), "got 5");
  // A folder in place of a shard.
  EXPECT_ERROR(Checkpoint::open(sourcePath(kBase) / "config.json"), "expected a checkpoint folder");
  EXPECT_ERROR(Checkpoint::open(sourcePath("test/data/none")), "no such folder");
}

TEST(CheckpointTest, OpenWeightsChecksAgainstTheGivenModel) {
  Expected<Checkpoint> base = Checkpoint::open(sourcePath(kBase));
  ASSERT_TRUE(base.ok());
  TempFolder folder; // without a config.json
  std::filesystem::copy_file(sourcePath(kBase) / "model.safetensors", folder / "model.safetensors");
  EXPECT_ERROR(Checkpoint::open(folder.path()), "config.json");
  Expected<Checkpoint> weights = Checkpoint::openWeights(folder.path(), base->config());
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  EXPECT_EQ(weights->config(), base->config());
  EXPECT_EQ(weights->files()[0].headerHash, base->files()[0].headerHash);
  ModelConfig other = base->config();
  other.intermediate = 32;
  EXPECT_ERROR(Checkpoint::openWeights(folder.path(), other), "expected shape [32, 16]");
}

TEST(CheckpointTest, DroppedPagesCanBeReadAgain) {
  Expected<Checkpoint> checkpoint = Checkpoint::open(sourcePath("examples/kjv-mini"));
  ASSERT_TRUE(checkpoint.ok());
  Checkpoint moved = std::move(*checkpoint);
  const TensorInfo &tensor = moved.tensors().at("embed_tokens.weight");
  std::vector<std::byte> before(moved.data(tensor).begin(), moved.data(tensor).end());
  moved.dropPages(tensor);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), moved.data(tensor).begin()));
}
