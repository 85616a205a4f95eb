// A checkpoint compiled in this process and loaded: what whole-model tests of compiled code share.
#pragma once

#include "../ReferenceModel.h"
#include "../TestFiles.h"

#include "runtime/device/CpuFeatures.h"
#include "runtime/engine/Context.h"
#include "tools/compiler/Compiler.h"

#include "codegen/cpu/HostIsa.h"

#include <memory>
#include <string>
#include <vector>

namespace gemma::test {

/// Instruction sets that this processor can run, the widest first.
inline std::vector<std::string> runnableIsas() {
  std::vector<std::string> names;
  for (const codegen::HostIsa &isa : codegen::hostIsas())
    if (missingFeature(isa.needs).empty())
      names.push_back(isa.name);
  return names;
}

/// Reference data of a folder, under test/data/models unless the name has a slash.
struct ReferenceData {
  Checkpoint checkpoint;
  ReferenceFile reference;

  static std::filesystem::path folder(const std::string &name) {
    return sourcePath(name.find('/') == std::string::npos ? "test/data/models/" + name : name);
  }
  static ReferenceData open(const std::string &name) {
    auto checkpoint = Checkpoint::open(folder(name));
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    auto file = SafetensorsFile::open(folder(name) / "reference.safetensors");
    EXPECT_TRUE(file) << file.error().message;
    return {std::move(*checkpoint), ReferenceFile(std::move(*file))};
  }
};

struct CompiledModel {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Context> context;

  /// Compiles for the widest instruction set of this processor unless `options` name some.
  static CompiledModel make(const Checkpoint &checkpoint, compiler::CompileOptions options,
                            ContextOptions contextOptions = {}) {
    if (options.isas.empty() && options.targets.front() == "host")
      options.isas = {runnableIsas().front()};
    return load(compiler::compileCheckpoint(checkpoint, options), checkpoint, contextOptions);
  }

  /// What was compiled, with its weights.
  static CompiledModel load(Expected<Artifact> artifact, const Checkpoint &checkpoint,
                            ContextOptions contextOptions = {}) {
    CompiledModel made;
    EXPECT_TRUE(artifact) << artifact.error().message;
    if (!artifact)
      return made;
    auto model = Model::load(std::move(*artifact), checkpoint, {});
    EXPECT_TRUE(model) << model.error().message;
    if (!model)
      return made;
    made.model = *model;
    made.renew(contextOptions);
    return made;
  }

  /// A fresh context of the same model.
  void renew(ContextOptions options = {}) {
    options.threads = options.threads ? options.threads : 2;
    context.reset();
    auto created = Context::create(model, options);
    ASSERT_TRUE(created) << created.error().message;
    context = std::move(*created);
  }

  std::unique_ptr<Sequence> sequence() {
    auto made = context->newSequence();
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }

  /// Logits [tokens, V] of all `tokens`, in steps of at most `chunk` (0: as many as possible).
  Tensor prefill(Sequence &sequence, const Ids &tokens, int64_t chunk = 0) {
    int64_t vocab = model->program().config.vocab;
    Tensor logits({int64_t(tokens.size()), vocab});
    Status status = context->extend(
        sequence, tokens, LogitsWanted::All,
        [&](int64_t first, const StepResult &result) {
          auto view = context->output("logits");
          for (int64_t row = 0; row < result.logitRows; ++row)
            view->copyRow(row, logits.row(first + row));
          return Status();
        },
        chunk);
    EXPECT_TRUE(status) << status.error().message;
    return logits;
  }

  /// Keys and values of the last `window` positions (0: all), [position, heads · dim] each; keys
  /// that are not stored are zeros.
  std::pair<Tensor, Tensor> cached(const Sequence &sequence, size_t cache) {
    const CachePlan &plan = model->program().caches[cache];
    int64_t first = plan.window ? std::max<int64_t>(0, sequence.length() - plan.window) : 0;
    int64_t count = sequence.length() - first, width = plan.heads * plan.dim;
    Tensor k({count, width}), v({count, width});
    auto number = [&](std::string lane, int64_t index, int64_t scale) {
      double out, factor = 1;
      widen(plan.elem, context->cacheLane(cache, lane), size_t(index), std::span(&out, 1));
      if (plan.elem == ScalarType::I8)
        widen(ScalarType::F32, context->cacheLane(cache, lane + "_scales"), size_t(scale),
              std::span(&factor, 1));
      return out * factor;
    };
    for (int64_t p = first; p < sequence.length(); ++p) {
      int64_t page = context->pageOf(sequence, p, plan.ring), slot = p % plan.page;
      for (int64_t h = 0; h < plan.heads; ++h)
        for (int64_t d = 0; d < plan.dim; ++d) {
          int64_t head = page * plan.heads + h, scale = head * plan.page + slot;
          if (plan.keys)
            k.row(p - first)[h * plan.dim + d] =
                number("k", (head * plan.dim + d) * plan.page + slot, scale);
          v.row(p - first)[h * plan.dim + d] = number("v", scale * plan.dim + d, scale);
        }
    }
    return {std::move(k), std::move(v)};
  }
};

/// √ of the mean squared difference.
inline double rmsDifference(const Tensor &got, const Tensor &expected) {
  double sum = 0;
  for (size_t i = 0; i < got.data.size(); ++i)
    sum += (got.data[i] - expected.data[i]) * (got.data[i] - expected.data[i]);
  return std::sqrt(sum / double(got.data.size()));
}

} // namespace gemma::test
