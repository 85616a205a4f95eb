// Very small checkpoints whose tensors a test sets itself, compiled once a configuration.
#pragma once

#include "CompiledModel.h"

#include "runtime/checkpoint/SafetensorsWriter.h"

#include <nlohmann/json.hpp>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace gemma::test {

/// A checkpoint of hidden size 16, vocabulary 32, 2 query heads on 1 KV head, head dimensions 8
/// (sliding, window 8) and 16 (global, a quarter rotated), in f32. Random weights of unit scale
/// until a test says otherwise; layer scalars are 1.
class SyntheticModel {
public:
  static constexpr int64_t hidden = 16, vocab = 32, window = 8;

  /// Layer types as config.json spells their first letter: "sf" is a sliding layer and a full one.
  /// `shape` replaces what it names of the text configuration.
  explicit SyntheticModel(const std::string &layers, unsigned seed = 1,
                          const nlohmann::json &shape = nlohmann::json::object()) {
    config = nlohmann::json::parse(R"({
      "model_type": "gemma4_unified", "dtype": "float32", "tie_word_embeddings": true,
      "text_config": {
        "model_type": "gemma4_unified_text", "vocab_size": 32, "hidden_size": 16,
        "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1,
        "num_global_key_value_heads": 1, "head_dim": 8, "global_head_dim": 16,
        "attention_k_eq_v": true, "sliding_window": 8, "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-06, "final_logit_softcapping": 30.0, "tie_word_embeddings": true,
        "max_position_embeddings": 256,
        "rope_parameters": {
          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
          "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,
                             "partial_rotary_factor": 0.25}}}})");
    nlohmann::json &text = config["text_config"];
    text.update(shape);
    text["num_hidden_layers"] = layers.size();
    for (char layer : layers)
      text["layer_types"].push_back(layer == 's' ? "sliding_attention" : "full_attention");
    writeText(folder / "config.json", config.dump());
    auto read = readModelConfig(folder / "config.json");
    EXPECT_TRUE(read) << read.error().message;
    std::mt19937 random(seed);
    for (const auto &[name, info] : requiredTensors(*read)) {
      bool vector = info.shape.size() == 1;
      int64_t elements = vector ? info.shape[0] : info.shape[0] * info.shape[1];
      float scale = vector ? 0.1f : 1.0f / std::sqrt(float(info.shape.back()));
      std::uniform_real_distribution<float> uniform(-1.7f * scale, 1.7f * scale);
      std::vector<float> &values = tensors[name];
      for (int64_t i = 0; i < elements; ++i)
        values.push_back(name.ends_with("layer_scalar") ? 1 : uniform(random) + (vector ? 1 : 0));
      shapes[name] = info.shape;
    }
  }

  std::vector<float> &operator[](const std::string &name) {
    EXPECT_TRUE(tensors.count(name)) << name;
    return tensors[name];
  }
  void fill(const std::string &name, float value) {
    std::fill((*this)[name].begin(), (*this)[name].end(), value);
  }
  /// An attention and a feed-forward part that add nothing: the layer gives its input times its
  /// scalar.
  void makeInert(int64_t layer) {
    std::string prefix = "layers." + std::to_string(layer) + ".";
    fill(prefix + "self_attn.o_proj.weight", 0);
    fill(prefix + "mlp.down_proj.weight", 0);
  }

  /// Writes the tensors as they are now and opens the folder.
  Checkpoint open() {
    SafetensorsWriter writer;
    for (const auto &[name, values] : tensors)
      writer.add("model.language_model." + name, ScalarType::F32, shapes[name],
                 std::as_bytes(std::span(values)));
    EXPECT_OK(writer.write(folder / "model.safetensors"));
    auto checkpoint = Checkpoint::open(folder.path());
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return std::move(*checkpoint);
  }

  /// The model with the tensors as they are now. Models of one configuration share their code.
  CompiledModel compile(const compiler::CompileOptions &options, ContextOptions context = {}) {
    static std::map<std::string, Artifact> compiled;
    Checkpoint checkpoint = open();
    std::string key = config.dump() + std::string(name(*options.dtype)) + " " +
                      std::string(name(options.kvType.value_or(*options.dtype))) +
                      (options.fusion ? " fused " : " unfused ") +
                      (options.kvSharing ? " shared " : " unshared ") +
                      std::to_string(options.maxBatch) + " " + std::to_string(options.maxChunk);
    CompiledModel made;
    if (!compiled.count(key)) {
      compiler::CompileOptions complete = options;
      complete.isas = {runnableIsas().front()};
      complete.maxContext = 128;
      auto artifact = compiler::compileModel(checkpoint.config(), complete);
      EXPECT_TRUE(artifact) << artifact.error().message;
      if (!artifact)
        return made;
      compiled[key] = std::move(*artifact);
    }
    auto model = Model::load(compiled[key], checkpoint, {});
    EXPECT_TRUE(model) << model.error().message;
    if (!model)
      return made;
    made.model = *model;
    made.renew(context);
    return made;
  }

  /// Logits [tokens, V] by the interpreter.
  Tensor expected(const Ids &tokens) {
    Checkpoint checkpoint = open();
    mlir::MLIRContext context;
    auto module = importModel(context, checkpoint.config(), {ScalarType::F64});
    EXPECT_TRUE(module);
    reference::CheckpointWeights weights{checkpoint};
    Interpreter interpreter(*module, weights);
    return logitsOf(interpreter, Batch::single(int64_t(tokens.size())), tokens);
  }

private:
  TempFolder folder;
  nlohmann::json config;
  std::map<std::string, std::vector<float>> tensors;
  std::map<std::string, std::vector<int64_t>> shapes;
};

/// `count` ids of the vocabulary, in a fixed irregular order, none of them 0.
inline Ids someIds(int64_t count, int32_t start = 3) {
  Ids ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(int32_t(1 + (start + i * 7 + i / 5) % (SyntheticModel::vocab - 1)));
  return ids;
}

} // namespace gemma::test
