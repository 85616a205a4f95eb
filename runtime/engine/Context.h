// Running a model: a Context has the memory of one step and the caches of its sequences.
#pragma once

#include "runtime/device/Executor.h"
#include "runtime/engine/MemoryPlan.h"
#include "runtime/engine/Model.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace gemma {

class Context;
class CachePoison;

struct ContextOptions {
  int64_t context = 0;  ///< positions of a sequence; 0: the program's limit
  int64_t batch = 0;    ///< sequences at the same time; 0: the program's limit
  unsigned threads = 0; ///< 0: the cores this process may use
  /// For tests: before every step, everything that kernels must not read (arena, scratch, outputs,
  /// cache places outside of what the new tokens may see) is filled with NaN. Taking tokens back is
  /// then refused. Also set by GEMMA_POISON=1.
  bool poison = false;
};

/// One sequence of tokens with its place in the caches, which it returns when it dies. Belongs to
/// one Context, which must outlive it.
class Sequence {
public:
  ~Sequence();
  Sequence(const Sequence &) = delete;
  Sequence &operator=(const Sequence &) = delete;

  /// Tokens in the caches.
  int64_t length() const { return tokens; }
  /// How many more there is room for.
  int64_t room() const;

  /// Takes back tokens until `length` are left. Possible as far as the sliding layers still have
  /// the window of the next token: at most maxChunk below the most tokens there ever were.
  /// length = 0 is always possible. More is an error that changes nothing.
  Status truncate(int64_t length);

  /// Gives an empty sequence `length` tokens with made-up keys and values, without computing them:
  /// for measuring what steps take after so many. Refused if there is no room, or if reads of dead
  /// cache places are watched (ContextOptions::poison, the emulated device).
  Status makeUp(int64_t length);

private:
  /// Takes the pages that `length` tokens need more than there are.
  void takePages(int64_t length);
  /// Gives back the pages that `length` tokens do not need.
  void releasePages(int64_t length);
  friend class Context;
  friend class CachePoison;
  Sequence(Context &context, int32_t slot) : context(context), slot(slot) {}

  Context &context;
  int32_t slot;
  int64_t tokens = 0;
  int64_t highWater = 0;      ///< most tokens since the sequence was last empty
  std::vector<int32_t> pages; ///< of 16 positions, in order
};

/// For which of a row's new tokens a step gives logits.
enum class LogitsWanted : uint8_t { None, Last, All };

/// Which of the program's outputs the host wants of a step. Only these are brought to it from a
/// device with memory of its own.
enum class OutputsWanted : uint8_t {
  Logits, ///< "logits"
  Top,    ///< "top_values" and "top_ids": the largest logits of each row and their ids
  All,
};

/// Whether an output is among those.
bool isWanted(const OutputPlan &output, OutputsWanted wanted);

/// A row of a step: new tokens of one sequence.
struct StepRow {
  Sequence *sequence = nullptr;
  std::span<const int32_t> tokens;
  LogitsWanted logits = LogitsWanted::Last;
};

/// An output of the last step; valid until the next one.
struct OutputView {
  ScalarType type = ScalarType::F32;
  int64_t rows = 0;
  int64_t rowElements = 0;
  const std::byte *data = nullptr; ///< [rows, rowElements]

  /// Row `row` of floats, exactly.
  void copyRow(int64_t row, std::span<double> out) const;
  /// Row `row` of ids, as many as `out` takes.
  void copyRow(int64_t row, std::span<int32_t> out) const;
};

/// What a step did.
struct StepResult {
  int64_t tokens = 0;    ///< T
  int64_t logitRows = 0; ///< R
  size_t variant = 0;    ///< index of the program's variant that ran
  /// The first logit row of each of the step's rows (its own number of rows follows from what it
  /// wanted); meaningless for None.
  std::vector<int64_t> firstLogitRow;
  OutputsWanted outputs = OutputsWanted::All; ///< what the host can read
};

/// Told after each launch of a step: the variant and the launch within it.
using LaunchObserver = std::function<void(size_t variant, size_t launch)>;

/// Told before the first launch of a step that was accepted: its variant, tokens and logit rows.
/// Its sequences have the lengths from before it.
using StepObserver = std::function<void(const StepResult &step)>;

/// Told of each chunk of a long input: the index of its first token with logits within the input.
using ChunkResult = std::function<Status(int64_t firstToken, const StepResult &result)>;

class Context {
public:
  /// Allocates what the plan says, once; refused with the numbers if it does not fit.
  static Expected<std::unique_ptr<Context>> create(std::shared_ptr<const Model> model,
                                                   const ContextOptions &options);
  ~Context();

  const Model &model() const { return *shared; }
  const MemoryPlan &plan() const { return memoryPlan; }
  /// What it holds: the plan's contextBytes().
  uint64_t allocatedBytes() const { return memoryPlan.contextBytes(); }
  /// What runs its launches.
  Executor &device() { return *executor; }
  unsigned threads() const { return unsigned(memoryPlan.threads); }
  /// Most tokens of a sequence.
  int64_t contextLength() const { return memoryPlan.context; }

  /// An empty sequence; refused if there are as many as the batch allows.
  Expected<std::unique_ptr<Sequence>> newSequence();

  /// Appends each row's tokens to its sequence and computes the outputs. Everything is checked
  /// first: a refused step changes nothing. Refused: no rows, more rows than the batch, a row
  /// without tokens, one sequence in two rows, more than maxChunk tokens or maxLogitRows logit rows
  /// together, a token id outside the vocabulary, a full context, outputs that the program does not
  /// give.
  Expected<StepResult> step(std::span<const StepRow> rows,
                            OutputsWanted wanted = OutputsWanted::Logits);

  /// Appends any number of tokens that the context has room for, in steps of at most `chunk` tokens
  /// (0: as many as the program allows). `onLogits` is told after every step that made logits; they
  /// are in output("logits"). If it fails, the tokens so far stay appended.
  Status extend(Sequence &sequence, std::span<const int32_t> tokens, LogitsWanted wanted,
                const ChunkResult &onLogits, int64_t chunk = 0);

  /// The output of that name from the last step, or nothing if the program has none or the step was
  /// not to bring it.
  std::optional<OutputView> output(std::string_view name) const;

  /// Has `observer` called after every launch from now on; null: nobody. What the launch wrote into
  /// buffers and outputs is in argumentData() until a later launch reuses the place. On a device
  /// with memory of its own every launch is then waited for and copied back.
  void observeLaunches(LaunchObserver observer) { launchObserver = std::move(observer); }
  /// Likewise before every step.
  void observeSteps(StepObserver observer) { stepObserver = std::move(observer); }
  /// Null for what is not the context's: weights and tables.
  const std::byte *argumentData(size_t variant, size_t launch, size_t argument) const;

  /// Brings the caches to where cacheLane() looks. Nothing to do for a device that shares the
  /// host's memory.
  Status fetchCaches();
  /// A lane of a cache (cacheLaneNames): all its bytes, for tests; none if it is not stored.
  std::span<const std::byte> cacheLane(size_t cache, std::string_view lane) const;
  /// The page of each cache of that kind that holds a position of a sequence, for tests.
  int64_t pageOf(const Sequence &sequence, int64_t position, bool ring) const;

private:
  friend class Sequence;
  friend class CachePoison;

  Context(std::shared_ptr<const Model> model, const MemoryPlan &plan);
  void layOut();
  Status allocate();
  void bindArguments();
  void *address(const LaunchArgument &argument) const;
  Status check(std::span<const StepRow> rows, OutputsWanted wanted, GemmaSizes &sizes) const;
  Status findLargestGrids();
  Expected<size_t> chooseVariant(const GemmaSizes &sizes, std::vector<uint64_t> &grids) const;
  void fillInputs(std::span<const StepRow> rows, const GemmaSizes &sizes, StepResult &result);
  Status runLaunches(const StepResult &step, int64_t sequences, const std::vector<uint64_t> &grids);
  void discardOld(const StepResult &step, int64_t sequences);
  void discardResults(const Launch &launch);
  /// What another sequence left in pages of the caches of that kind.
  void discardPages(bool ring, int64_t first, int64_t count);
  std::vector<ByteRange> resultsOf(const StepResult &step) const;
  /// Brings what a launch wrote to the host.
  Status fetchWritten(const Launch &launch);
  void undo(std::span<const StepRow> rows);
  Status poisonMemory();
  Status clearTickets();
  int32_t *input(size_t index) const;
  std::byte *onHost(uint64_t offset) const;

  std::shared_ptr<const Model> shared;
  MemoryPlan memoryPlan;
  std::unique_ptr<Executor> executor;
  bool poison = false;
  int64_t ringPages = 0; ///< of a sequence; 0 if no cache is a ring

  /// A part of the memory, by the name that reports call it.
  struct Region {
    ByteRange range;
    std::string name;
  };
  std::vector<Region> regions;

  ContextMemory memory;      ///< everything below lies in it: inputs, outputs, the rest
  uint64_t visibleBytes = 0; ///< inputs and outputs
  ByteRange arena;
  ByteRange tickets; ///< zero between launches
  bool ticketsAreZero = false;
  ByteRange scratch; ///< of worker 0; the others follow
  uint64_t scratchStride = 0;
  std::vector<ByteRange> outputs;
  std::vector<ByteRange> inputs; ///< from byte 0 on, the page table last
  std::vector<ByteRange> lanes;  ///< cacheLaneCount of each cache; of no bytes if not stored

  /// Of each variant, of each launch: the addresses of its arguments.
  std::vector<std::vector<std::vector<void *>>> arguments;

  /// Of each variant for one token a sequence the numbers of blocks of its largest step
  /// (largestDecodeStep()): a device that repeats launches as they were is given those by all of
  /// its steps. Empty for the others.
  std::vector<std::vector<uint64_t>> largestGrids;

  std::vector<int32_t> freeSlots;
  std::vector<int32_t> freePages;
  std::vector<Sequence *> sequences; ///< by slot; null if free
  StepResult last;
  LaunchObserver launchObserver;
  StepObserver stepObserver;
};

} // namespace gemma
