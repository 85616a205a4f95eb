#include "tools/gemma-gpu-check/StepLog.h"

#include "runtime/abi/ProgramSizes.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/engine/Sampler.h"

#include <algorithm>
#include <cmath>

namespace gemma::check {

namespace {

/// An argument's rows as they lie in memory.
struct Rows {
  ScalarType type;
  int64_t rows, elements, stride;
  const std::byte *data;

  std::span<const std::byte> bytes(int64_t row) const {
    size_t width = byteWidth(type);
    return {data + size_t(row * stride) * width, size_t(elements) * width};
  }
  void read(int64_t row, std::span<double> out) const { widen(type, bytes(row), 0, out); }
};

class Observer {
public:
  Observer(Context &context, const std::function<void(const Written &)> &took)
      : context(context), took(took) {}

  std::string prefix;
  int64_t tokens = 0, sequences = 0, logitRows = 0;

  void afterLaunch(size_t variant, size_t index) {
    const Program &program = context.model().program();
    const Launch &launch = program.variants[variant].launches[index];
    const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      std::optional<Rows> rows = rowsOf(launch.arguments[i]);
      // Ids follow from numbers that are compared: checkTop() looks at them.
      if (kernel.access[i] == 0 || !rows || rows->rows == 0 || !isFloat(rows->type))
        continue;
      rows->data = context.argumentData(variant, index, i);
      Written written;
      char number[16];
      std::snprintf(number, sizeof number, "%03zu.%zu", index, i);
      written.name = prefix + number;
      written.kernel = kernel.name;
      for (const std::string &node : launch.nodes)
        written.nodes += (written.nodes.empty() ? "" : " ") + node;
      sample(*rows, written);
      took(written);
    }
  }

private:
  int64_t count(char extent) const {
    return extent == 'T' ? tokens : extent == 'B' ? sequences : extent == 'R' ? logitRows : 1;
  }

  std::optional<Rows> rowsOf(const LaunchArgument &argument) const {
    const Program &program = context.model().program();
    if (argument.kind == LaunchArgument::Kind::Buffer)
      return Rows{argument.type, count(argument.extent), int64_t(rowElements(argument).value_or(0)),
                  argument.stride, nullptr};
    if (argument.kind == LaunchArgument::Kind::Output)
      for (const OutputPlan &plan : program.outputs)
        if (plan.name == argument.name) {
          int64_t elements = 1;
          for (int64_t size : plan.shape)
            elements *= size;
          return Rows{plan.type, count(plan.extent), elements, elements, nullptr};
        }
    return std::nullopt;
  }

  static void sample(const Rows &rows, Written &written) {
    std::vector<int64_t> chosen = {0, rows.rows / 2, rows.rows - 1};
    chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
    written.type = rows.type;
    written.rows = int64_t(chosen.size());
    written.elements = rows.elements;
    std::vector<double> row(size_t(rows.elements));
    double sum = 0;
    for (int64_t r = 0; r < rows.rows; ++r) {
      rows.read(r, row);
      for (double value : row)
        sum += value * value;
      if (std::find(chosen.begin(), chosen.end(), r) == chosen.end())
        continue;
      written.values.insert(written.values.end(), row.begin(), row.end());
      std::span<const std::byte> bytes = rows.bytes(r);
      written.bytes.insert(written.bytes.end(), bytes.begin(), bytes.end());
    }
    written.rms = std::sqrt(sum / double(rows.rows * rows.elements));
  }

  Context &context;
  const std::function<void(const Written &)> &took;
};

/// Refuses a step whose top_ids are not those of its own logits.
Status checkTop(const Context &context, const std::string &step) {
  std::optional<OutputView> logits = context.output("logits"), ids = context.output(topIdsName);
  if (!logits || !ids)
    return {};
  std::vector<double> row(size_t(logits->rowElements));
  for (int64_t r = 0; r < logits->rows; ++r) {
    int32_t id = -1;
    ids->copyRow(r, std::span(&id, 1));
    logits->copyRow(r, row);
    if (int32_t expected = argmax(row); id != expected)
      return badInput(step + "row " + std::to_string(r) + " of top_ids: expected " +
                      std::to_string(expected) + ", where its logits are largest, got " +
                      std::to_string(id));
  }
  return {};
}

} // namespace

Status runCase(Context &context, const Case &what,
               const std::function<void(const Written &)> &took) {
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (size_t i = 0; i < what.sequences; ++i) {
    Expected<std::unique_ptr<Sequence>> made = context.newSequence();
    if (!made)
      return made.status();
    sequences.push_back(std::move(*made));
  }
  Observer observer(context, took);
  for (size_t s = 0; s < what.steps.size(); ++s) {
    std::vector<std::vector<int32_t>> tokens;
    std::vector<StepRow> rows;
    tokens.reserve(what.steps[s].size());
    rows.reserve(what.steps[s].size());
    observer.tokens = 0;
    for (const CaseRow &row : what.steps[s]) {
      tokens.push_back(
          caseTokens(row.tokens, context.model().program().config.vocab, s * 100 + row.sequence));
      observer.tokens += row.tokens;
    }
    for (size_t i = 0; i < tokens.size(); ++i)
      rows.push_back({sequences[what.steps[s][i].sequence].get(), tokens[i], LogitsWanted::Last});
    observer.sequences = observer.logitRows = int64_t(rows.size());
    observer.prefix = what.name + "/" + std::to_string(s) + "/";
    if (s + 2 >= what.steps.size())
      context.observeLaunches([&](size_t v, size_t l) { observer.afterLaunch(v, l); });
    bool top = context.model().program().topCount() > 0;
    Expected<StepResult> result =
        context.step(rows, top ? OutputsWanted::All : OutputsWanted::Logits);
    context.observeLaunches(nullptr);
    if (!result)
      return result.status();
    if (Status status = checkTop(context, observer.prefix); !status)
      return status;
  }
  return {};
}

} // namespace gemma::check
