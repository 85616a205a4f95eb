#include "tools/verify/ModelCase.h"

#include "import/Import.h"
#include "runtime/checkpoint/ConfigReader.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/support/File.h"
#include "runtime/support/Json.h"
#include "tools/gemma-run/NodeLog.h"
#include "tools/verify/BundledConfigs.h"
#include "tools/verify/Verification.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace gemma::verify {

using reference::Tensor;

Expected<std::string> officialConfig(const ModelConfig &config) {
  for (const BundledConfig &bundled : bundledConfigs()) {
    Expected<nlohmann::json> parsed = parseJson(bundled.narrow, bundled.key);
    if (!parsed)
      return parsed.status();
    nlohmann::json &text = (*parsed)["text_config"];
    nlohmann::json kinds = nlohmann::json::array();
    for (LayerKind kind : config.layerKinds)
      kinds.push_back(kind == LayerKind::Sliding ? "sliding_attention" : "full_attention");
    text["layer_types"] = kinds;
    text["num_hidden_layers"] = config.layers();
    text["rms_norm_eps"] = config.rmsEps;
    text["max_position_embeddings"] = config.maxPositions;
    text["final_logit_softcapping"] = nullptr;
    if (config.softcap)
      text["final_logit_softcapping"] = *config.softcap;
    nlohmann::json &rope = text["rope_parameters"];
    rope["sliding_attention"]["rope_theta"] = config.sliding.rope.theta;
    rope["full_attention"]["rope_theta"] = config.global.rope.theta;
    rope["full_attention"]["partial_rotary_factor"] =
        2.0 * double(config.global.rope.active) / double(config.global.headDim);
    text["tie_word_embeddings"] = config.tiedHead;
    (*parsed)["tie_word_embeddings"] = config.tiedHead;
    (*parsed)["dtype"] = "bfloat16";

    // The form is right if it reads back as the same model.
    std::string json = parsed->dump(2) + "\n";
    Problems problems;
    ConfigFile read = readConfigText(json, "config.json", problems);
    ModelConfig expected = config;
    expected.dtype = ScalarType::BF16;
    if (problems.empty() && *read.model == expected)
      return json;
  }
  return badInput(
      "the configuration cannot be written in the published form of the 12B or the 31B");
}

namespace {
/// Collects the reference file.
class ReferenceWriter {
public:
  explicit ReferenceWriter(const ModelConfig &config) : config(config) {
    for (LayerKind kind : {LayerKind::Sliding, LayerKind::Global})
      if (auto found = std::ranges::find(config.layerKinds, kind); found != config.layerKinds.end())
        shownLayers.insert(found - config.layerKinds.begin());
  }

  /// Runs a prompt of `length` tokens; with `inside` every node's tensor is kept.
  Status addPrompt(mlir::ModuleOp module, reference::Interpreter &interpreter, uint64_t seed,
                   int64_t length, bool inside);
  Status write(const std::filesystem::path &file);

private:
  void addNode(const NodeId &id, const Tensor &tensor);

  const ModelConfig &config;
  std::set<int64_t> shownLayers;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::vector<int64_t>> ids;
};
} // namespace

void ReferenceWriter::addNode(const NodeId &id, const Tensor &tensor) {
  int64_t length = tensor.dim(0), elements = tensor.count() / length;
  for (const run::NodeTensor &part :
       run::nodeTensors(config, id.key, id.occurrence, length, elements)) {
    bool sub = part.name.starts_with("sub.");
    if (!sub && !part.name.starts_with("hidden."))
      continue;
    std::string layer = ".layer.";
    if (sub) {
      size_t at = part.name.find(layer) + layer.size();
      if (!shownLayers.contains(std::stoll(part.name.substr(at))))
        continue;
    }
    std::vector<int64_t> shape = {length};
    shape.insert(shape.end(), part.shape.begin(), part.shape.end());
    Tensor slice(shape);
    int64_t size = slice.count() / length;
    for (int64_t t = 0; t < length; ++t)
      std::copy_n(tensor.data.begin() + t * elements + part.begin, size,
                  slice.data.begin() + t * size);
    tensors[part.name] = std::move(slice);
  }
}

/// Sum over t >= 1 of log p(token t given those before).
static double logLikelihood(const Tensor &logits, const std::vector<int32_t> &tokens) {
  long double sum = 0;
  for (size_t t = 1; t < tokens.size(); ++t) {
    std::span<const double> row = logits.row(int64_t(t) - 1);
    long double largest = *std::ranges::max_element(row), total = 0;
    for (double z : row)
      total += std::exp((long double)z - largest);
    sum += (long double)row[size_t(tokens[t])] - largest - std::log(total);
  }
  return double(sum);
}

Status ReferenceWriter::addPrompt(mlir::ModuleOp module, reference::Interpreter &interpreter,
                                  uint64_t seed, int64_t length, bool inside) {
  PromptPlan prompt = makePrompt(seed, length, config.vocab, length, true);
  prompt.tokens.front() = 2; // <bos>
  std::map<mlir::Operation *, NodeId> names = nameNodes(module);
  if (inside)
    interpreter.observe([&](mlir::Operation *op, unsigned, const Tensor &tensor) {
      if (auto name = names.find(op); name != names.end())
        addNode(name->second, tensor);
    });
  interpreter.drop(0);
  reference::Ids rows;
  for (int64_t i = 0; i < length; ++i)
    rows.push_back(int32_t(i));
  auto result = interpreter.step(reference::Batch::single(length), prompt.tokens, rows);
  interpreter.observe(nullptr);
  if (!result)
    return result.status();
  std::string prefix = "prompt." + std::to_string(length) + ".";
  ids[prefix + "tokens"] = {prompt.tokens.begin(), prompt.tokens.end()};
  tensors[prefix + "logits"] = result->logits();
  tensors[prefix + "loglik"] = Tensor({1}, {logLikelihood(result->logits(), prompt.tokens)});
  return {};
}

Status ReferenceWriter::write(const std::filesystem::path &file) {
  SafetensorsWriter writer;
  for (const auto &[name, values] : ids)
    writer.add(name, ScalarType::I64, {int64_t(values.size())}, std::as_bytes(std::span(values)));
  for (const auto &[name, tensor] : tensors)
    writer.add(name, ScalarType::F64, tensor.shape, std::as_bytes(std::span(tensor.data)));
  return writer.write(file);
}

Status writeModelCase(const ModelSource &source, const CaseOptions &options,
                      const std::filesystem::path &folder) {
  Expected<ModelConfig> reduced = reducedConfig(source.config);
  if (!reduced)
    return reduced.status();
  reduced->dtype = ScalarType::BF16;
  if (options.tokens < 1 || options.tokens > reduced->maxPositions)
    return badInput("--tokens: expected 1 to " + std::to_string(reduced->maxPositions) + ", got " +
                    std::to_string(options.tokens));
  Expected<std::string> config = officialConfig(*reduced);
  if (!config)
    return config.status();
  std::error_code error;
  if (std::filesystem::exists(folder / "config.json", error))
    return badInput(folder.string() + ": has a config.json already");
  std::filesystem::create_directories(folder, error);
  if (error)
    return badInput(folder.string() + ": " + error.message());
  if (Status written = writeFileAtomically(folder / "config.json", *config); !written)
    return written;
  if (Status written = writeRandomWeights(folder, *reduced, options.seed, "model.language_model.");
      !written)
    return written;

  // What was written is what is run.
  Expected<Checkpoint> checkpoint = Checkpoint::open(folder);
  if (!checkpoint)
    return checkpoint.status();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto module = importModel(context, checkpoint->config(), {ScalarType::F64});
  if (!module)
    return internalError("import failed");
  reference::CheckpointWeights weights(*checkpoint);
  reference::Interpreter interpreter(*module, weights);
  int64_t window = reduced->sliding.window ? reduced->sliding.window : 16;
  ReferenceWriter writer(*reduced);
  for (int64_t length : std::set<int64_t>{1, 2, std::max<int64_t>(1, window - 1), window,
                                          window + 1, 3 * window + 5, options.tokens})
    if (Status added =
            writer.addPrompt(*module, interpreter, options.seed, length, length == 3 * window + 5);
        !added)
      return added;
  return writer.write(folder / "reference.safetensors");
}

} // namespace gemma::verify
