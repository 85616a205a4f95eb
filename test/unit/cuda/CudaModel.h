// A model on a CUDA device: the fake driver executes what the emulated device would.
#pragma once

#include "FakeCuda.h"

#include "runtime/engine/Generator.h"
#include "tools/compiler/Compiler.h"

#include <algorithm>

namespace gemma::test {

using Ids = std::vector<int32_t>;

inline const Ids prompt = {2, 523, 306, 651, 91,  1007, 12, 40,   3000, 77,
                           8, 9,   10,  11,  120, 13,   14, 1500, 16,   17};

/// The model compiled once: PTX and the emulator's objects of it.
class CudaModelTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    // Two threads and no detectors: those watch the same kernels in EmulatedModelTest.
    ::setenv("GEMMA_EMU", "checks=off", 1);
    auto opened = Checkpoint::open(std::filesystem::path(GEMMA_SOURCE_DIR) / "examples/kjv-mini");
    ASSERT_TRUE(opened) << opened.error().message;
    checkpoint = new Checkpoint(std::move(*opened));
    compiler::CompileOptions options;
    options.dtype = ScalarType::BF16;
    options.targets = {"ptx-sm_80", "emu-sm_80"};
    options.maxContext = 128;
    options.maxChunk = 16;
    options.maxBatch = 6;
    auto made = compiler::compileCheckpoint(*checkpoint, options);
    ASSERT_TRUE(made) << made.error().message;
    artifact = new Artifact(std::move(*made));
  }
  static void TearDownTestSuite() {
    delete artifact;
    delete checkpoint;
  }

  struct Loaded {
    std::shared_ptr<const Model> model;
    std::unique_ptr<Context> context;
  };

  static Expected<Loaded> load(const char *device, bool poison = false,
                               const Artifact &from = *artifact) {
    ModelOptions options;
    options.device = *DeviceChoice::parse(device);
    auto model = Model::load(from, *checkpoint, options);
    if (!model)
      return model.status();
    ContextOptions contextOptions;
    contextOptions.threads = 2;
    contextOptions.poison = poison;
    auto context = Context::create(*model, contextOptions);
    if (!context)
      return context.status();
    return Loaded{*model, std::move(*context)};
  }

  static std::vector<double> lastRow(const Context &context, const StepResult &result) {
    auto view = context.output("logits");
    std::vector<double> row(size_t(view->rowElements));
    view->copyRow(result.logitRows - 1, row);
    return row;
  }

  /// The prompt, then `count` tokens, the most likely always; their logits too.
  struct Text {
    Ids tokens;
    std::vector<std::vector<double>> logits;
    bool operator==(const Text &) const = default;
  };
  static Expected<Text> generate(Context &context, Sequence &sequence, int count) {
    Text text;
    auto take = [&](int64_t, const StepResult &result) {
      text.logits.push_back(lastRow(context, result));
      const std::vector<double> &row = text.logits.back();
      text.tokens.push_back(int32_t(std::max_element(row.begin(), row.end()) - row.begin()));
      return Status();
    };
    if (Status status = context.extend(sequence, prompt, LogitsWanted::Last, take); !status)
      return status;
    for (int i = 1; i < count; ++i)
      if (Status status =
              context.extend(sequence, {{text.tokens.back()}}, LogitsWanted::Last, take);
          !status)
        return status;
    return text;
  }
  static Expected<Text> generate(const char *device, int count, bool poison = false) {
    auto loaded = load(device, poison);
    if (!loaded)
      return loaded.status();
    auto sequence = loaded->context->newSequence();
    if (!sequence)
      return sequence.status();
    return generate(*loaded->context, **sequence, count);
  }

  static inline const Checkpoint *checkpoint = nullptr;
  static inline const Artifact *artifact = nullptr;
};

} // namespace gemma::test
