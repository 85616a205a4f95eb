// The comparisons behind VerifyModel.h, for one configuration.
#pragma once

#include "reference/Interpreter.h"
#include "runtime/engine/Artifact.h"
#include "tools/verify/CompiledRun.h"
#include "tools/verify/Quantised.h"
#include "tools/verify/RandomCheckpoint.h"
#include "tools/verify/SpecKey.h"
#include "tools/verify/SpecSheet.h"
#include "tools/verify/VerifyModel.h"

#include "mlir/IR/MLIRContext.h"

#include <cmath>

namespace gemma::verify {

/// A prompt, and how it is cut into steps.
struct PromptPlan {
  std::vector<int32_t> tokens;
  std::vector<int64_t> steps; ///< tokens of each step
  bool allLogits = true;      ///< of every token, else of each step's last one

  /// Positions that have logits.
  reference::Ids logitRows() const;
};

/// `length` random tokens: steps of at most `chunk`, the last few tokens one by one.
PromptPlan makePrompt(uint64_t seed, int64_t length, int64_t vocab, int64_t chunk, bool allLogits);

/// max|d| and max|ref| of a tensor that comes in pieces.
class Distance {
public:
  void add(const reference::Tensor &got, const reference::Tensor &expected);
  /// Infinite if shapes differ or a number is not finite.
  double value() const { return broken ? INFINITY : worst == 0 ? 0 : worst / largest; }

private:
  double worst = 0, largest = 0;
  bool broken = false;
};

class Verification {
public:
  /// `config`: at the sizes that are run.
  static Expected<std::unique_ptr<Verification>> make(const ModelConfig &config,
                                                      const VerifyOptions &options);

  /// One draw of weights for what follows.
  Status draw(uint64_t seed);
  /// Runs a program on a prompt and compares.
  Status run(const Artifact &artifact, const PromptPlan &prompt);
  /// The rows in the order of the spec page, then the whole models.
  std::vector<VerifyRow> rows() const;

private:
  Verification(const ModelConfig &config, const VerifyOptions &options)
      : config(config), options(options) {}
  Status makeRows();
  /// Makes the reference of the draw's weights as `program` stores them, if there is none yet.
  Status readWeights(const Program &program);
  /// How `program` rounds activations that go into `op`; nothing if it does not.
  std::optional<ScalarType> codesOf(const Program &program, mlir::Operation *op) const;
  /// What the reference computes of the prompt, with inputs of its own.
  Expected<reference::Tensor> expectedLogits(const Program &program, const PromptPlan &prompt);
  /// Each node of a step on the inputs that the program had.
  Status compareNodes(const reference::Batch &batch, const PromptPlan &prompt, int64_t first,
                      int64_t count, const NodeOutputs &outputs, const Program &program);
  void record(VerifyRow &row, double error, const std::string &where);
  VerifyRow *rowOf(const std::string &key);

  const ModelConfig &config;
  const VerifyOptions &options;
  std::optional<NodePattern> pattern;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED};
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<mlir::Operation *, NodeId> names;
  std::vector<SpecNode> specNodes;
  std::vector<VerifyRow> nodeRows; ///< one a spec node, in the same order
  std::map<std::string, VerifyRow> wholeRows;
  int64_t longestSum = 0; ///< terms of a contraction

  uint64_t seed = 0;
  std::optional<Checkpoint> weights;
  /// What contractions with quantised weights round activations to.
  ScalarType codes = ScalarType::I8;
  std::unique_ptr<StoredWeights> weightSource;
  std::optional<reference::Interpreter> interpreter;
};

} // namespace gemma::verify
