// One step: check everything, then fill the inputs, then run the launches.
#include "runtime/abi/ProgramSizes.h"
#include "runtime/abi/Variants.h"
#include "runtime/engine/Context.h"
#include "runtime/engine/Poison.h"

#include <algorithm>
#include <cstring>

namespace gemma {

static int64_t logitRowsOf(const StepRow &row) {
  switch (row.logits) {
  case LogitsWanted::None:
    return 0;
  case LogitsWanted::Last:
    return 1;
  case LogitsWanted::All:
    return int64_t(row.tokens.size());
  }
  return 0;
}

static Error tooMany(const char *what, int64_t most, int64_t got) {
  return badInput(std::string("step: expected at most ") + std::to_string(most) + " " + what +
                  ", got " + std::to_string(got));
}

Status Context::check(std::span<const StepRow> rows, OutputsWanted wanted,
                      GemmaSizes &sizes) const {
  const Program &program = shared->program();
  if (wanted == OutputsWanted::Top && program.topCount() == 0)
    return badInput("the artifact's program gives no top_ids; it was compiled with --top 0");
  const ProgramLimits &limits = program.limits;
  if (rows.empty())
    return badInput("step: expected at least one row, got none");
  if (int64_t(rows.size()) > memoryPlan.batch)
    return tooMany("rows", memoryPlan.batch, int64_t(rows.size()));
  sizes = {};
  sizes.sequences = int64_t(rows.size());
  int64_t pagesNeeded = 0;
  for (size_t b = 0; b < rows.size(); ++b) {
    const StepRow &row = rows[b];
    if (!row.sequence || &row.sequence->context != this)
      return badInput("step: row " + std::to_string(b) + " has no sequence of this context");
    for (size_t other = 0; other < b; ++other)
      if (rows[other].sequence == row.sequence)
        return badInput("step: rows " + std::to_string(other) + " and " + std::to_string(b) +
                        " have the same sequence");
    int64_t count = int64_t(row.tokens.size());
    if (count == 0)
      return badInput("step: row " + std::to_string(b) + ": expected at least one token, got none");
    if (count > limits.maxChunk - sizes.tokens)
      return tooMany("new tokens", limits.maxChunk, sizes.tokens + count);
    if (count > row.sequence->room())
      return badInput("context full: " + std::to_string(row.sequence->tokens) + " tokens and " +
                      std::to_string(count) + " new ones, expected at most " +
                      std::to_string(contextLength()));
    for (int32_t token : row.tokens)
      if (token < 0 || token >= program.config.vocab)
        return badInput("token id: expected 0 to " + std::to_string(program.config.vocab - 1) +
                        ", got " + std::to_string(token));
    int64_t length = row.sequence->tokens + count;
    pagesNeeded += (length + 15) / 16 - int64_t(row.sequence->pages.size());
    sizes.tokens += count;
    sizes.longestRun = std::max(sizes.longestRun, count);
    sizes.longestSeq = std::max(sizes.longestSeq, length);
    sizes.logitRows += logitRowsOf(row);
  }
  if (sizes.logitRows > limits.maxLogitRows)
    return tooMany("logit rows", limits.maxLogitRows, sizes.logitRows);
  if (pagesNeeded > int64_t(freePages.size()))
    return tooMany("more pages of 16 positions", int64_t(freePages.size()), pagesNeeded);
  return {};
}

/// The numbers of blocks of a variant's launches in a step of these sizes.
static Expected<std::vector<uint64_t>> gridsOf(const Program &program, const Variant &variant,
                                               const StepSizes &sizes) {
  std::vector<uint64_t> grids;
  // A kernel is launched once a layer: its grid is the same each time.
  std::vector<int64_t> known(program.kernels.size(), -1);
  for (const Launch &launch : variant.launches) {
    const KernelPlan &kernel = program.kernels[size_t(launch.kernel)];
    int64_t &grid = known[size_t(launch.kernel)];
    if (grid < 0) {
      std::optional<int64_t> value = kernel.grid.evaluate(sizes);
      if (!value || *value < 0)
        return badInput("kernel " + kernel.name + ": its grid has no size for this step");
      grid = *value;
    }
    grids.push_back(uint64_t(grid));
  }
  return grids;
}

Status Context::findLargestGrids() {
  const Program &program = shared->program();
  for (const Variant &variant : program.variants) {
    std::vector<uint64_t> &largest = largestGrids.emplace_back();
    std::optional<StepSizes> sizes = largestDecodeStep(variant, program.limits, memoryPlan.batch);
    if (!sizes)
      continue;
    Expected<std::vector<uint64_t>> grids = gridsOf(program, variant, *sizes);
    if (!grids)
      return grids.status();
    largest = std::move(*grids);
  }
  return {};
}

Expected<size_t> Context::chooseVariant(const GemmaSizes &sizes,
                                        std::vector<uint64_t> &grids) const {
  StepSizes values = {sizes.tokens, sizes.sequences, sizes.longestRun, sizes.longestSeq,
                      sizes.logitRows};
  const Program &program = shared->program();
  size_t variant = variantFor(program, values);
  if (variant == program.variants.size())
    return badInput(
        "the artifact has no variant for T=" + std::to_string(sizes.tokens) +
        " B=" + std::to_string(sizes.sequences) + " Q=" + std::to_string(sizes.longestRun) +
        " S=" + std::to_string(sizes.longestSeq) + " R=" + std::to_string(sizes.logitRows));
  Expected<std::vector<uint64_t>> found = gridsOf(program, program.variants[variant], values);
  if (!found)
    return found.status();
  grids = std::move(*found);
  return variant;
}

void Context::fillInputs(std::span<const StepRow> rows, const GemmaSizes &sizes,
                         StepResult &result) {
  std::memcpy(input(size_t(StepInput::Sizes)), &sizes, sizeof sizes);
  int32_t *tokens = input(size_t(StepInput::Tokens));
  int32_t *positions = input(size_t(StepInput::Positions));
  int32_t *ring = input(size_t(StepInput::RingPages));
  int32_t *paged = input(size_t(StepInput::Pages));
  int32_t *rowStarts = input(size_t(StepInput::RowStarts));
  int32_t *seqLens = input(size_t(StepInput::SeqLens));
  int32_t *slots = input(size_t(StepInput::Slots));
  int32_t *pageTable = input(size_t(StepInput::PageTable));
  int32_t *logitRows = input(size_t(StepInput::LogitRows));
  int64_t stride = shared->program().pagesPerSequence();
  int64_t t = 0, r = 0;
  for (size_t b = 0; b < rows.size(); ++b) {
    Sequence &sequence = *rows[b].sequence;
    int64_t start = sequence.tokens, count = int64_t(rows[b].tokens.size());
    sequence.takePages(start + count);
    rowStarts[b] = int32_t(t);
    seqLens[b] = int32_t(start + count);
    slots[b] = sequence.slot;
    // Entries beyond the sequence's pages are never looked at; 0 is at least a page.
    int32_t *tableRow = pageTable + int64_t(b) * stride;
    std::fill(std::copy(sequence.pages.begin(), sequence.pages.end(), tableRow), tableRow + stride,
              0);
    result.firstLogitRow.push_back(r);
    int64_t firstLogit = count - logitRowsOf(rows[b]);
    for (int64_t i = 0; i < count; ++i, ++t) {
      tokens[t] = rows[b].tokens[size_t(i)];
      positions[t] = int32_t(start + i);
      ring[t] = ringPages ? int32_t(pageOf(sequence, start + i, true)) : 0;
      paged[t] = int32_t(pageOf(sequence, start + i, false));
      if (i >= firstLogit)
        logitRows[r++] = int32_t(t);
    }
  }
  rowStarts[rows.size()] = int32_t(t);
}

/// Bytes between two results that are copied as one: a copy more costs more than they do.
static constexpr uint64_t largestGap = 4096;

/// What the step's outputs take, of those that are wanted.
std::vector<ByteRange> Context::resultsOf(const StepResult &step) const {
  std::vector<ByteRange> ranges;
  const std::vector<OutputPlan> &plans = shared->program().outputs;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!isWanted(plans[i], step.outputs))
      continue;
    uint64_t bytes =
        uint64_t(plans[i].extent == 'T' ? step.tokens : step.logitRows) * byteWidth(plans[i].type);
    for (int64_t size : plans[i].shape)
      bytes *= uint64_t(size);
    if (bytes == 0)
      continue;
    uint64_t begin = outputs[i].offset;
    if (!ranges.empty() && begin - (ranges.back().offset + ranges.back().bytes) <= largestGap)
      ranges.back().bytes = begin + bytes - ranges.back().offset;
    else
      ranges.push_back({begin, bytes});
  }
  return ranges;
}

/// Before a step: of the inputs what lies behind those of its tokens and sequences, and what
/// earlier steps computed.
void Context::discardOld(const StepResult &step, int64_t sequences) {
  for (size_t i = 0; i < stepInputCount; ++i) {
    uint64_t used = 0;
    switch (StepInput(i)) {
    case StepInput::Tokens:
    case StepInput::Positions:
    case StepInput::RingPages:
    case StepInput::Pages:
      used = uint64_t(step.tokens);
      break;
    case StepInput::RowStarts:
      used = uint64_t(sequences) + 1;
      break;
    case StepInput::SeqLens:
    case StepInput::Slots:
      used = uint64_t(sequences);
      break;
    case StepInput::LogitRows:
      used = uint64_t(step.logitRows);
      break;
    case StepInput::PageTable:
      used = uint64_t(sequences * shared->program().pagesPerSequence());
      break;
    case StepInput::Sizes:
      continue;
    }
    executor->discard({inputs[i].offset + 4 * used, inputs[i].bytes - 4 * used});
  }
  executor->discard(arena);
  for (const ByteRange &output : outputs)
    executor->discard(output);
}

/// Before a launch: what it writes whole, or uses alone, holds what earlier launches left.
void Context::discardResults(const Launch &launch) {
  using Kind = LaunchArgument::Kind;
  constexpr uint8_t writes = 1; // KernelPlan::access
  const std::vector<uint8_t> &access = shared->program().kernels[size_t(launch.kernel)].access;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const LaunchArgument &argument = launch.arguments[i];
    // Between the rows of a part of a buffer there is what others write.
    bool whole = argument.kind == Kind::Buffer && access[i] == writes &&
                 uint64_t(argument.stride) <= rowElements(argument).value_or(0);
    if (argument.kind == Kind::Workspace || whole)
      executor->discard({arena.offset + argument.offset, argument.bytes});
  }
}

Status Context::runLaunches(const StepResult &step, int64_t sequences,
                            const std::vector<uint64_t> &grids) {
  const std::vector<Launch> &launches = shared->program().variants[step.variant].launches;
  auto sizes =
      reinterpret_cast<const GemmaSizes *>(memory.device + inputs[size_t(StepInput::Sizes)].offset);
  if (stepObserver)
    stepObserver(step);
  uint64_t tableRows = 4 * uint64_t(sequences * shared->program().pagesPerSequence());
  executor->begin(step.variant, inputs[size_t(StepInput::PageTable)].offset + tableRows);
  bool watched = executor->watchesReads();
  if (watched)
    discardOld(step, sequences);
  const std::vector<uint64_t> &largest = largestGrids[step.variant];
  Status status;
  for (size_t i = 0; i < launches.size() && status; ++i) {
    if (watched)
      discardResults(launches[i]);
    uint64_t most = largest.empty() ? 0 : largest[i];
    status =
        executor->run({size_t(launches[i].kernel), grids[i], most, arguments[step.variant][i],
                       sizes, launches[i].nodes, memory.device + scratch.offset, scratchStride});
    if (status && launchObserver) {
      status = executor->finish({});
      if (status)
        status = fetchWritten(launches[i]);
      if (status)
        launchObserver(step.variant, i);
    }
  }
  std::vector<ByteRange> results;
  if (status)
    results = resultsOf(step);
  Status ended = executor->finish(results);
  return status ? ended : status;
}

/// After a step that failed: its rows' sequences are as before it. What it wrote lies where their
/// tokens do not look, but may have overwritten what a sliding layer would need to go back.
void Context::undo(std::span<const StepRow> rows) {
  for (const StepRow &row : rows) {
    Sequence &sequence = *row.sequence;
    sequence.releasePages(sequence.tokens);
    sequence.highWater = std::max(sequence.highWater, sequence.tokens + int64_t(row.tokens.size()));
  }
  last = {};
}

/// After a step that failed.
Status Context::clearTickets() {
  if (!ticketsAreZero && tickets.bytes != 0)
    if (Status status = executor->fill(tickets, 0); !status)
      return status;
  ticketsAreZero = true;
  return {};
}

Status Context::poisonMemory() {
  for (const std::vector<ByteRange> &ranges : {std::vector{arena, scratch}, outputs})
    for (const ByteRange &range : ranges)
      if (Status status = executor->fill(range, 0xff); !status)
        return status;
  return CachePoison(*this).fillDeadPlaces();
}

Expected<StepResult> Context::step(std::span<const StepRow> rows, OutputsWanted wanted) {
  GemmaSizes sizes;
  if (Status status = check(rows, wanted, sizes); !status)
    return status;
  std::vector<uint64_t> grids;
  Expected<size_t> variant = chooseVariant(sizes, grids);
  if (!variant)
    return variant.status();
  // From here on only a device can fail.
  if (Status status = clearTickets(); !status)
    return status;
  if (poison)
    if (Status status = poisonMemory(); !status)
      return status;
  StepResult result;
  result.tokens = sizes.tokens;
  result.logitRows = sizes.logitRows;
  result.variant = *variant;
  result.outputs = wanted;
  fillInputs(rows, sizes, result);
  if (Status status = runLaunches(result, sizes.sequences, grids); !status) {
    ticketsAreZero = false; // a launch that did not end may have left some
    undo(rows);
    return status;
  }
  for (const StepRow &row : rows) {
    row.sequence->tokens += int64_t(row.tokens.size());
    row.sequence->highWater = std::max(row.sequence->highWater, row.sequence->tokens);
  }
  last = result;
  return result;
}

Status Context::extend(Sequence &sequence, std::span<const int32_t> tokens, LogitsWanted wanted,
                       const ChunkResult &onLogits, int64_t chunk) {
  const ProgramLimits &limits = shared->program().limits;
  if (tokens.empty())
    return badInput("expected at least one token, got none");
  // What would stop a later chunk is said before the first one.
  if (int64_t(tokens.size()) > sequence.room())
    return badInput("context full: " + std::to_string(sequence.length()) + " tokens and " +
                    std::to_string(tokens.size()) + " new ones, expected at most " +
                    std::to_string(contextLength()));
  for (int32_t token : tokens)
    if (token < 0 || token >= shared->program().config.vocab)
      return badInput("token id: expected 0 to " +
                      std::to_string(shared->program().config.vocab - 1) + ", got " +
                      std::to_string(token));
  int64_t most = chunk > 0 ? std::min(chunk, limits.maxChunk) : limits.maxChunk;
  if (wanted == LogitsWanted::All)
    most = std::min(most, limits.maxLogitRows);
  if (most < 1)
    return badInput("the artifact was compiled without logits");
  for (size_t begin = 0; begin < tokens.size();) {
    size_t count = std::min(size_t(most), tokens.size() - begin);
    bool final = begin + count == tokens.size();
    LogitsWanted here = wanted == LogitsWanted::Last && !final ? LogitsWanted::None : wanted;
    StepRow row{&sequence, tokens.subspan(begin, count), here};
    Expected<StepResult> result = step({&row, 1});
    if (!result)
      return result.status();
    if (here != LogitsWanted::None && onLogits) {
      size_t first = here == LogitsWanted::All ? begin : begin + count - 1;
      if (Status status = onLogits(int64_t(first), *result); !status)
        return status;
    }
    begin += count;
  }
  return {};
}

} // namespace gemma
