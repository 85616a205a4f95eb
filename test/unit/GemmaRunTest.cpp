// gemma-run on the toy model of ToyModel.h.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/engine/Model.h"
#include "runtime/weights/PackedWeights.h"
#include "runtime/weights/SyntheticTensors.h"
#include "test/unit/ToyModel.h"
#include "tools/gemma-run/Modes.h"
#include "tools/gemma-run/NodeLog.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <set>
#include <unistd.h>

using namespace gemma;
using namespace gemma::run;
using namespace gemma::toy;

namespace {

class GemmaRun : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    folder = std::filesystem::temp_directory_path() / ("gemma-run-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    Expected<Checkpoint> checkpoint = Checkpoint::open(checkpointFolder());
    ASSERT_TRUE(checkpoint.ok());
    Artifact artifact = toyArtifact(checkpoint->config());
    ASSERT_TRUE(recordCheckpoint(artifact, *checkpoint, true).ok());
    Status status = writeArtifact(folder / "toy.gemma", artifact);
    ASSERT_TRUE(status.ok()) << status.error().message;
    const TensorInfo &tensor = checkpoint->tensors().at("embed_tokens.weight");
    embedding = widenAll(tensor.type, checkpoint->data(tensor));
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder); }

  RunOptions options() {
    RunOptions made;
    made.artifact = (folder / "toy.gemma").string();
    made.threads = 2;
    made.quiet = true;
    made.greedy = true;
    return made;
  }

  std::string output(const RunOptions &options) {
    ::testing::internal::CaptureStdout();
    Status status = runMode(options);
    std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.error().message);
    return text;
  }

  std::string refusal(const RunOptions &options) {
    Status status = runMode(options);
    EXPECT_FALSE(status.ok());
    return status.ok() ? "" : status.error().message;
  }

  static std::vector<int32_t> greedy(std::vector<int32_t> tokens, int count) {
    std::vector<int32_t> generated;
    for (int i = 0; i < count; ++i) {
      generated.push_back(argmax(toyLogits(embedding.data(), tokens, int64_t(tokens.size()) - 1)));
      tokens.push_back(generated.back());
    }
    return generated;
  }

  static std::vector<double> tensor(const SafetensorsFile &file, const std::string &name,
                                    std::vector<int64_t> shape) {
    const SafetensorsEntry *entry = file.find(name);
    EXPECT_NE(entry, nullptr) << name;
    if (!entry)
      return {};
    EXPECT_EQ(entry->shape, shape);
    return widenAll(*entry->type, file.data(*entry));
  }

  static std::filesystem::path folder;
  static std::vector<double> embedding;
};

std::filesystem::path GemmaRun::folder;
std::vector<double> GemmaRun::embedding;

const std::vector<int32_t> prompt = {2, 100, 514, 0, 33, 7, 8, 9, 10, 11, 12};
const char *const promptText = "2,100,514, 0,33,7,8,9,10,11,12";

/// The toy model packed beside a copy of the artifact.
std::filesystem::path packedCopy(const std::filesystem::path &folder, const std::string &name,
                                 const std::string &origin = "") {
  std::filesystem::path path = folder / name;
  std::filesystem::copy_file(folder / "toy.gemma", path,
                             std::filesystem::copy_options::overwrite_existing);
  Expected<Artifact> artifact = readArtifact(path);
  Expected<Checkpoint> checkpoint = Checkpoint::open(checkpointFolder());
  EXPECT_TRUE(artifact && checkpoint);
  Status status = packWeightsToFile(artifact->program, CheckpointTensors(*checkpoint),
                                    origin.empty() ? weightsOrigin(*artifact) : origin, 1,
                                    path.string() + ".weights");
  EXPECT_TRUE(status.ok()) << status.error().message;
  return path;
}

TEST_F(GemmaRun, PackedWeightsBesideTheArtifactOrNamed) {
  RunOptions options = this->options();
  options.tokens = promptText;
  options.maxTokens = 3;
  std::string expected = output(options);
  options.artifact = packedCopy(folder, "packed.gemma").string();
  EXPECT_EQ(output(options), expected);
  options.verifyWeights = true;
  EXPECT_EQ(output(options), expected);
  options.verifyWeights = false;
  // Another checkpoint's are refused where they only lie there, taken where they are named, unless
  // they are to be verified.
  options.artifact = packedCopy(folder, "foreign.gemma", std::string(32, '0')).string();
  EXPECT_NE(refusal(options).find("packed from other weights"), std::string::npos);
  options.packedWeights = options.artifact + ".weights";
  EXPECT_EQ(output(options), expected);
  options.verifyWeights = true;
  EXPECT_NE(refusal(options).find("packed from other weights"), std::string::npos);
  options.weights = checkpointFolder().string();
  EXPECT_NE(refusal(options).find("--packed-weights: goes without"), std::string::npos);
}

TEST_F(GemmaRun, SyntheticWeightsNeedNoFile) {
  Expected<Artifact> artifact = readArtifact(folder / "toy.gemma");
  ASSERT_TRUE(artifact);
  artifact->checkpointFolder.clear();
  artifact->checkpointFiles.clear();
  artifact->syntheticSeed = 3;
  RunOptions options = this->options();
  options.artifact = (folder / "synthetic.gemma").string();
  ASSERT_TRUE(writeArtifact(options.artifact, *artifact).ok());
  Expected<Artifact> back = readArtifact(options.artifact);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->syntheticSeed, 3u);
  options.tokens = promptText;
  options.maxTokens = 5;
  std::string first = output(options);
  SyntheticTensors tensors(artifact->program.config, 3);
  ASSERT_TRUE(packWeightsToFile(artifact->program, tensors, weightsOrigin(*artifact), 1,
                                options.artifact + ".weights")
                  .ok());
  EXPECT_EQ(output(options), first);
  artifact->syntheticSeed = 4; // the packed file is of seed 3
  ASSERT_TRUE(writeArtifact(options.artifact, *artifact).ok());
  EXPECT_NE(refusal(options).find("packed from other weights"), std::string::npos);
}

TEST_F(GemmaRun, ProfileSumsLaunchesAndWritesATrace) {
  RunOptions options = this->options();
  options.tokens = promptText;
  options.maxTokens = 4;
  options.json = true;
  options.profile = true;
  options.profileOut = (folder / "trace.json").string();
  nlohmann::json profile = nlohmann::json::parse(output(options))["profile"];
  // 11 tokens in chunks of at most 8, then, by the other variant, 3 of the 4 generated ones.
  EXPECT_EQ(profile["steps"], 5);
  ASSERT_EQ(profile["kinds"].size(), 6u);
  double seconds = 0;
  std::set<std::string> nodes;
  for (const nlohmann::json &kind : profile["kinds"]) {
    nodes.insert(kind["nodes"].get<std::string>());
    EXPECT_EQ(kind["launches"], kind["variant"] == "all" ? 2 : 3);
    EXPECT_GT(kind["of_limit"], 0);
    EXPECT_LE(kind["bytes"].get<double>() / kind["seconds"].get<double>(),
              kind["bytes_per_second"].get<double>() * 1.001);
    seconds += kind["seconds"].get<double>();
  }
  EXPECT_EQ(nodes, (std::set<std::string>{"append", "attend", "logits"}));
  EXPECT_LE(seconds, profile["seconds"].get<double>());
  EXPECT_GT(profile["limits"]["read_bytes_per_second"], 1e8);
  EXPECT_GT(profile["limits"]["f32_flops_per_second"], 1e8);

  std::ifstream file(options.profileOut);
  nlohmann::json trace = nlohmann::json::parse(file);
  ASSERT_EQ(trace["traceEvents"].size(), 5u * 4);
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  // What "Trace Event Format" asks of a complete event, and that events of a thread nest, to the
  // nanosecond, as a viewer of integers sees them.
  int64_t stepBegin = 0, stepEnd = 0, lastEnd = 0, cached = 0;
  for (const nlohmann::json &event : trace["traceEvents"]) {
    EXPECT_EQ(event["ph"], "X");
    EXPECT_TRUE(event["name"].is_string() && !event["name"].get<std::string>().empty());
    EXPECT_TRUE(event["cat"].is_string());
    EXPECT_TRUE(event["pid"].is_number_integer() && event["tid"].is_number_integer());
    EXPECT_TRUE(event["args"].is_object());
    ASSERT_TRUE(event["ts"].is_number() && event["dur"].is_number());
    auto nanoseconds = [](double microseconds) {
      int64_t whole = std::llround(microseconds * 1000);
      EXPECT_LT(std::abs(microseconds * 1000 - double(whole)), 1e-3) << microseconds;
      return whole;
    };
    int64_t begin = nanoseconds(event["ts"]), end = begin + nanoseconds(event["dur"]);
    EXPECT_LE(begin, end);
    if (event["name"].get<std::string>().starts_with("step ")) {
      EXPECT_GE(begin, stepEnd);
      EXPECT_EQ(event["args"]["cached"], cached);
      cached += event["args"]["tokens"].get<int64_t>();
      stepBegin = lastEnd = begin;
      stepEnd = end;
    } else { // within its step, after the launch before
      EXPECT_GE(begin, stepBegin);
      EXPECT_GE(begin, lastEnd);
      EXPECT_LE(end, stepEnd);
      lastEnd = end;
      EXPECT_TRUE(event["args"]["nodes"].is_array());
    }
  }
  EXPECT_EQ(cached, 11 + 3);
  options.nodesOut = (folder / "n").string();
  EXPECT_NE(refusal(options).find("without --nodes-out"), std::string::npos);
}

TEST_F(GemmaRun, LogitsOfPromptAndGeneration) {
  RunOptions options = this->options();
  options.tokens = promptText;
  options.maxTokens = 5;
  options.json = true;
  options.logitsOut = (folder / "logits.safetensors").string();
  nlohmann::json out = nlohmann::json::parse(output(options));
  std::vector<int32_t> expected = greedy(prompt, 5);
  EXPECT_EQ(out["prompt_tokens"], 11);
  EXPECT_EQ(out["tokens"], expected);
  EXPECT_EQ(out["finish"], "length");
  Expected<SafetensorsFile> file = SafetensorsFile::open(options.logitsOut);
  ASSERT_TRUE(file.ok()) << file.error().message;
  std::vector<double> logits = tensor(*file, "logits", {11, vocab});
  std::vector<double> generated = tensor(*file, "generated.logits", {5, vocab});
  std::vector<int32_t> all = prompt;
  all.insert(all.end(), expected.begin(), expected.end());
  for (int64_t t = 0; t < 15; ++t) {
    std::vector<double> row = toyLogits(embedding.data(), all, t);
    for (int64_t v = 0; v < vocab; ++v) {
      double bound = 1e-11 * (1 + std::abs(row[size_t(v)]));
      if (t < 11)
        ASSERT_NEAR(logits[size_t(t * vocab + v)], row[size_t(v)], bound);
      if (t >= 10)
        ASSERT_NEAR(generated[size_t((t - 10) * vocab + v)], row[size_t(v)], bound);
    }
    if (t >= 10) {
      double expectedLogprob = row[size_t(expected[size_t(t - 10)])] - logSumExp(row);
      EXPECT_NEAR(out["logprobs"][size_t(t - 10)].get<double>(), expectedLogprob, 1e-9);
    }
  }
}

TEST_F(GemmaRun, PrintsIdsWithoutATokenizer) {
  RunOptions options = this->options();
  options.tokens = promptText;
  options.maxTokens = 3;
  std::vector<int32_t> ids = greedy(prompt, 3);
  EXPECT_EQ(output(options), std::to_string(ids[0]) + " " + std::to_string(ids[1]) + " " +
                                 std::to_string(ids[2]) + "\n");
  options.maxTokens = 0;
  EXPECT_EQ(output(options), "");
}

TEST_F(GemmaRun, StopsWhereTheContextEnds) {
  RunOptions options = this->options();
  options.tokens = promptText;
  options.context = 13;
  options.json = true;
  nlohmann::json out = nlohmann::json::parse(output(options));
  // Two more tokens are in the context; a third one is known, but has no place.
  EXPECT_EQ(out["tokens"], greedy(prompt, 3));
  EXPECT_EQ(out["finish"], "context");
}

// Every id of the eos list stops, whatever its place in the list; nothing else does.
TEST_F(GemmaRun, StopsAtEveryIdOfTheEosList) {
  std::vector<int32_t> ids = greedy(prompt, 6);
  Expected<Artifact> artifact = readArtifact(folder / "toy.gemma");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  for (size_t stop = 0; stop < ids.size(); ++stop) {
    if (std::count(ids.begin(), ids.begin() + int64_t(stop), ids[stop]))
      continue; // came before
    int64_t other = vocab - 1;
    while (std::count(ids.begin(), ids.end(), other))
      --other;
    for (std::vector<int64_t> eos : {std::vector<int64_t>{ids[stop]}, {other, ids[stop]}}) {
      artifact->eosIds = eos;
      ASSERT_TRUE(writeArtifact(folder / "stops.gemma", *artifact).ok());
      RunOptions options = this->options();
      options.artifact = (folder / "stops.gemma").string();
      options.tokens = promptText;
      options.maxTokens = 6;
      options.json = true;
      nlohmann::json out = nlohmann::json::parse(output(options));
      EXPECT_EQ(out["finish"], "stop");
      EXPECT_EQ(out["tokens"], std::vector<int32_t>(ids.begin(), ids.begin() + int64_t(stop)));
      options.ignoreEos = true;
      EXPECT_EQ(nlohmann::json::parse(output(options))["tokens"], ids);
    }
    artifact->eosIds = {other};
    ASSERT_TRUE(writeArtifact(folder / "stops.gemma", *artifact).ok());
    RunOptions options = this->options();
    options.artifact = (folder / "stops.gemma").string();
    options.tokens = promptText;
    options.maxTokens = 6;
    options.json = true;
    EXPECT_EQ(nlohmann::json::parse(output(options))["finish"], "length");
  }
}

TEST_F(GemmaRun, Perplexity) {
  std::filesystem::path file = folder / "lines.jsonl";
  std::ofstream(file) << "[2, 100, 514, 0]\n\n[2, 5, 6]\n";
  RunOptions options = this->options();
  options.perplexity = file.string();
  options.json = true;
  nlohmann::json out = nlohmann::json::parse(output(options));
  double sum = 0;
  for (std::vector<int32_t> line : {std::vector<int32_t>{2, 100, 514, 0}, {2, 5, 6}})
    for (size_t t = 0; t + 1 < line.size(); ++t) {
      std::vector<double> row = toyLogits(embedding.data(), line, int64_t(t));
      sum += logSumExp(row) - row[size_t(line[t + 1])];
    }
  EXPECT_EQ(out["tokens"], 5);
  EXPECT_NEAR(out["nll"].get<double>(), sum, 1e-9 * sum);
  EXPECT_NEAR(std::log(out["perplexity"].get<double>()), sum / 5, 1e-9 * sum);
  EXPECT_EQ(out["lines"][1]["line"], 3);
  std::ofstream(file) << "[2, 100]\n{}\n";
  EXPECT_NE(refusal(options).find("line 2"), std::string::npos);
  std::ofstream(file) << "[2, 515]\n";
  EXPECT_NE(refusal(options).find("got 515"), std::string::npos);
}

TEST_F(GemmaRun, Refusals) {
  RunOptions options = this->options();
  auto has = [](const std::string &message, const char *part) {
    return message.find(part) != std::string::npos ? ::testing::AssertionSuccess()
                                                   : ::testing::AssertionFailure() << message;
  };
  EXPECT_TRUE(has(refusal(options), "expected one of --prompt"));
  options.tokens = "";
  EXPECT_TRUE(has(refusal(options), "at least one token"));
  options.tokens = "1,,2";
  EXPECT_TRUE(has(refusal(options), "ids between commas or blanks"));
  options.tokens = "1,99999999999";
  EXPECT_TRUE(has(refusal(options), "ids between commas or blanks"));
  options.tokens = "1,515";
  EXPECT_TRUE(has(refusal(options), "0 to 514, got 515"));
  options.tokens = "1,-1";
  EXPECT_TRUE(has(refusal(options), "got -1"));
  options.tokens = "1,2,3,4";
  options.context = 3;
  EXPECT_TRUE(has(refusal(options), "context full"));
  options.context = 101;
  EXPECT_TRUE(has(refusal(options), "expected 1 to 100"));
  options = this->options();
  options.prompt = "In the beginning";
  EXPECT_TRUE(has(refusal(options), "needs a tokenizer"));
  options.prompt = "";
  EXPECT_TRUE(has(refusal(options), "empty prompt"));
  options.tokens = "1";
  EXPECT_TRUE(has(refusal(options), "got 2 of them"));
  options = this->options();
  options.chat = true;
  EXPECT_TRUE(has(refusal(options), "needs a tokenizer"));
  options = this->options();
  options.tokens = "1";
  options.weights = "/nowhere";
  EXPECT_TRUE(has(refusal(options), "/nowhere"));
  options.artifact = checkpointFolder().string();
  EXPECT_TRUE(has(refusal(options), "gemma-compile "));
  options.artifact = (checkpointFolder() / "config.json").string();
  EXPECT_TRUE(has(refusal(options), "not an artifact"));
}

TEST_F(GemmaRun, SamplingComesFromFlagsThenFile) {
  Artifact artifact;
  RunOptions options;
  EXPECT_TRUE(samplingOptions(options, artifact)->greedy());
  artifact.generation.emplace();
  artifact.generation->doSample = true;
  artifact.generation->temperature = 0.8;
  artifact.generation->topK = 64;
  Expected<SamplingOptions> sampling = samplingOptions(options, artifact);
  EXPECT_EQ(sampling->temperature, 0.8);
  EXPECT_EQ(sampling->topK, 64);
  EXPECT_EQ(sampling->topP, 1);
  options.topP = 0.5;
  options.seed = 9;
  sampling = samplingOptions(options, artifact);
  EXPECT_EQ(sampling->topP, 0.5);
  EXPECT_EQ(sampling->temperature, 0.8);
  EXPECT_EQ(sampling->seed, 9u);
  options.greedy = true;
  EXPECT_TRUE(samplingOptions(options, artifact)->greedy());
  artifact.generation->doSample = false;
  options.greedy = false;
  options.topP.reset();
  EXPECT_TRUE(samplingOptions(options, artifact)->greedy());
  options.temperature = 0;
  EXPECT_TRUE(samplingOptions(options, artifact)->greedy());
}

TEST(NodeTensors, NamesOfTheReferences) {
  ModelConfig config;
  config.heads = 4;
  config.intermediate = 50;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.sliding.kvHeads = 2;
  config.sliding.headDim = 10;
  config.global.kvHeads = 1;
  config.global.headDim = 20;
  auto names = [&](const std::string &key, int part, int64_t elements) {
    std::string out;
    for (const NodeTensor &t : nodeTensors(config, key, part, 7, elements))
      out += t.name + "@" + std::to_string(t.begin) + "x" + std::to_string(t.shape.size()) + " ";
    return out;
  };
  EXPECT_EQ(names("embed", 0, 30), "hidden.7.embed@0x1 sub.7.layer.0.layer_input@0x1 ");
  EXPECT_EQ(names("final_norm", 0, 30), "hidden.7.final_norm@0x1 ");
  EXPECT_EQ(names("layers[0].attn.qkv_proj", 0, 80),
            "sub.7.layer.0.q_proj@0x1 sub.7.layer.0.k_proj@40x1 sub.7.layer.0.v_proj@60x1 ");
  EXPECT_EQ(names("layers[1].attn.qkv_proj", 0, 100),
            "sub.7.layer.1.q_proj@0x1 sub.7.layer.1.k_proj@80x1 ");
  EXPECT_EQ(names("layers[0].attn.rope", 1, 20), "sub.7.layer.0.k_rope@0x2 ");
  EXPECT_EQ(names("layers[0].mlp_residual", 0, 30),
            "hidden.7.layer.0@0x1 sub.7.layer.0.layer_output@0x1 sub.7.layer.1.layer_input@0x1 ");
  EXPECT_EQ(names("layers[1].mlp_residual", 0, 30),
            "hidden.7.layer.1@0x1 sub.7.layer.1.layer_output@0x1 ");
  EXPECT_EQ(names("layers[1].mlp.gate_up", 0, 100),
            "sub.7.layer.1.gate_proj@0x1 sub.7.layer.1.up_proj@50x1 ");
  EXPECT_EQ(names("layers[9].mlp.down", 0, 3), "layers[9].mlp.down@0x1 ");
  EXPECT_EQ(names("something", 1, 3), "something#1@0x1 ");
}

} // namespace
