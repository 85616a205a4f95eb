// Would the emulated device notice? Faults are seeded one at a time into real kernels, into their
// PTX or into what the compiler says of them; a fault is caught if there is a finding or the
// results are out of their bounds. Of a hundred at least 95 must be; those that are not are
// printed.
#include "test/unit/LongTests.h"
#include "test/unit/gpu/LoweredModel.h"

#include <regex>
#include <set>

namespace gemma::test {
namespace {

/// Kernels that a fault makes sense in.
enum class In { All, Copying, Attention };

/// A way to break PTX: what `pattern` matches becomes what `change` makes of it, or, if there is
/// none, nothing.
struct Fault {
  const char *name;
  const char *pattern;
  std::function<std::string(const std::smatch &)> change = nullptr;
  unsigned places = 2; ///< most, spread over the text; 0: everywhere at once
  In in = In::All;
};

std::string plus(const std::string &number, int more) {
  return std::to_string((number.empty() ? 0 : std::stoi(number)) + more);
}

// Left out, because nothing depends on them, as no race and no result shows:
// - single barriers of kernels of rows: they stand between any two ops and before any reduction,
//   needed or not;
// - the wait for all copies at the end: none is on its way by then;
// - zeros in place of tokens and of keys that are not there: they are not stored, or masked later.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): a test may end so
const Fault faults[] = {
    {"drop a wait for copies", R"(cp\.async\.wait_group\s+[1-9];)"},
    {"wait for one group of copies too few", R"((cp\.async\.wait_group\s+)([1-9]);)",
     [](const std::smatch &m) { return m.str(1) + plus(m.str(2), 1) + ";"; }},
    {"drop a barrier", R"(bar\.sync\s+0;)", nullptr, 8, In::Copying},
    {"drop every barrier", R"(bar\.sync\s+0;)", nullptr, 0},
    {"drop the end of a group of copies", R"(cp\.async\.commit_group;)", nullptr, 3},
    {"drop a fence", R"((fence|membar)\.[^;]*;)", nullptr, 3},
    {"drop a copy", R"(cp\.async\.cg[^;]*;)", nullptr, 3},
    {"copy to the next row", R"((cp\.async\.cg\.shared\.global\s+\[%rd\d+)(?:\+(\d+))?\])",
     [](const std::smatch &m) { return m.str(1) + "+" + plus(m.str(2), 128) + "]"; }},
    {"copy dead values in place of zeros", R"((cp\.async\.cg[^;]*, 16), %r\d+;)",
     [](const std::smatch &m) { return m.str(1) + ";"; }, 0, In::Attention},
    {"zeros where a copy belongs", R"((cp\.async\.cg[^;]*), 16, 16;)",
     [](const std::smatch &m) { return m.str(1) + ", 16, 0;"; }},
    {"drop a matrix product",
     R"(mma\.sync[^{]*\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}, [^}]*\}, [^}]*\}, \{([^,]+), ([^,]+), ([^,]+), ([^,}]+)\};)",
     [](const std::smatch &m) {
       std::string moves;
       for (size_t i = 1; i <= 4; ++i)
         moves += "mov.b32 " + m.str(i) + ", " + m.str(i + 4) + ";\n";
       return moves;
     },
     3},
    {"exchange the halves of a product's left side",
     R"((mma\.sync[^{]*\{[^}]*\}, \{%r\d+, )(%r\d+), (%r\d+))",
     [](const std::smatch &m) { return m.str(1) + m.str(3) + ", " + m.str(2); }},
    {"exchange the halves of a product's right side",
     R"((mma\.sync[^{]*\{[^}]*\}, \{[^}]*\}, \{)(%r\d+), (%r\d+)\})",
     [](const std::smatch &m) { return m.str(1) + m.str(3) + ", " + m.str(2) + "}"; }},
    {"load the neighbouring matrix", R"((ldmatrix[^;]*\[%rd\d+)(?:\+(\d+))?\];)",
     [](const std::smatch &m) { return m.str(1) + "+" + plus(m.str(2), 16) + "];"; }},
    {"load a matrix without transposing", R"((ldmatrix[^;{]*)\.trans)",
     [](const std::smatch &m) { return m.str(1); }},
    {"a wrong swizzle", R"(xor\.b32(\s+%r\d+, %r\d+, (%r\d+|\d+);))",
     [](const std::smatch &m) { return "or.b32" + m.str(1); }, 3},
    {"drop a store to shared memory", R"(st\.shared[^;]*;)"},
    {"drop a store to global memory", R"(st\.global[^;]*;)"},
    {"load the neighbour", R"((ld\.global[^;]*\[%rd\d+)(?:\+(\d+))?\];)",
     [](const std::smatch &m) { return m.str(1) + "+" + plus(m.str(2), 16) + "];"; }},
    {"drop a shuffle", R"(shfl\.sync\.bfly\.b32\s+(%r\d+), (%r\d+),[^;]*;)",
     [](const std::smatch &m) { return "mov.b32 " + m.str(1) + ", " + m.str(2) + ";"; }},
    {"a wrong partner of a shuffle", R"((shfl\.sync\.bfly\.b32\s+%r\d+, %r\d+, )(\d+),)",
     [](const std::smatch &m) { return m.str(1) + (m.str(2) == "1" ? "2" : "1") + ","; }},
    {"turn a predicate round", R"(@(!?)(%p\d+) bra)",
     [](const std::smatch &m) { return (m.length(1) ? "@" : "@!") + m.str(2) + " bra"; }, 4},
    {"skip a round", R"(add\.s32(\s+%r\d+, %r\d+, )1;)",
     [](const std::smatch &m) { return "add.s32" + m.str(1) + "2;"; }},
    {"exchange the sides of a selection", R"((selp\.\w+\s+%\w+), ([^,]*), ([^,]*),)",
     [](const std::smatch &m) { return m.str(1) + ", " + m.str(3) + ", " + m.str(2) + ","; }, 3},
    {"add for subtract", R"(sub\.rn\.f32)", [](const std::smatch &) { return "add.rn.f32"; }},
    {"subtract for add", R"(add\.rn\.f32)", [](const std::smatch &) { return "sub.rn.f32"; }},
    {"drop a factor", R"(mul\.rn\.f32\s+(%r\d+), (%r\d+), [^;]*;)",
     [](const std::smatch &m) { return "mov.b32 " + m.str(1) + ", " + m.str(2) + ";"; }},
    {"drop an exponential", R"(ex2\.approx\.f32\s+(%r\d+), (%r\d+);)",
     [](const std::smatch &m) { return "mov.b32 " + m.str(1) + ", " + m.str(2) + ";"; }},
};

/// The line of the last .loc before a place.
std::string locBefore(const std::string &text, size_t place) {
  size_t loc = text.rfind(".loc\t1 ", place);
  return loc == std::string::npos ? "" : text.substr(loc, text.find(' ', loc + 7) - loc);
}

struct Mutant {
  std::string text, what;
};

/// `text` with the fault at some of its places: the first, the last, those between.
std::vector<Mutant> mutantsOf(const std::string &text, const Fault &fault) {
  bool copies = text.find("cp.async") != std::string::npos;
  bool attends = text.find("ex2") != std::string::npos && text.find(".trans") != std::string::npos;
  if ((fault.in == In::Copying && !copies) || (fault.in == In::Attention && !attends))
    return {};
  std::regex pattern(fault.pattern);
  std::vector<std::smatch> found(std::sregex_iterator(text.begin(), text.end(), pattern),
                                 std::sregex_iterator());
  if (fault.in == In::Copying) { // what copies is the last op; those before it are rows
    size_t last = text.rfind("mma.sync");
    std::erase_if(found, [&](const std::smatch &place) {
      return locBefore(text, size_t(place.position())) != locBefore(text, last);
    });
  }
  if (found.empty())
    return {};
  auto broken = [&](const std::smatch &place) { return fault.change ? fault.change(place) : ""; };
  if (fault.places == 0) {
    std::string all;
    size_t end = 0;
    for (const std::smatch &place : found) {
      all += text.substr(end, size_t(place.position()) - end) + broken(place);
      end = size_t(place.position() + place.length());
    }
    return {{all + text.substr(end), fault.name}};
  }
  std::vector<Mutant> mutants;
  size_t count = std::min<size_t>(found.size(), fault.places);
  for (size_t i = 0; i < count; ++i) {
    const std::smatch &place = found[count == 1 ? 0 : i * (found.size() - 1) / (count - 1)];
    auto begin = size_t(place.position());
    size_t line = text.rfind('\n', begin) + 1;
    mutants.push_back(
        {text.substr(0, begin) + broken(place) + text.substr(begin + size_t(place.length())),
         std::string(fault.name) + ": line " +
             std::to_string(1 + std::count(text.begin(), text.begin() + place.position(), '\n')) +
             " " + text.substr(line, text.find('\n', line) - line)});
  }
  return mutants;
}

/// Why a fault may not show.
struct Excuse {
  const char *kernel, *fault, *why;
};
const Excuse excuses[] = {
    {"attn_core", "drop the end of a group of copies", "where there is no first tile of keys"},
    {"attn_core", "skip a round", "the search for a block's sequence, which decode can do without"},
    {"attn_core", "exchange the sides of a selection", "before a search that finds the same"},
    {"attn_core", "load the neighbour", "before a search that finds the same"},
    {"attn_core", "drop a factor", "of rows of padding, which are not stored"},
    {"attn_core", "drop a store to shared memory", "of rows of padding, which are not stored"},
    {"attn_core", "add for subtract", "a factor of all parts, which the division takes out again"},
    {"attn_qkv_proj", "skip a round",
     "before a loop over parts, of which there are always some, or where all shares are as long"},
    {"attn_o_proj", "skip a round",
     "before a loop over parts, or in a ring that is not filled twice"},
    {"attn_o_proj", "exchange the sides of a selection", "in a ring that is not filled twice"},
    {"attn_o_proj", "drop a barrier", "in a ring that is not filled twice"},
    {"mlp_gate_up", "skip a round",
     "before a loop over parts, of which there are always some, or where all shares are as long"},
    {"lm_head", "subtract for add", "of a zero"},
    {"lm_head", "exchange the sides of a selection", "tanh of larger numbers than there are"},
};

std::string excuseOf(const std::string &kernel, const std::string &fault) {
  for (const Excuse &excuse : excuses)
    if (kernel.starts_with(excuse.kernel) && fault.starts_with(excuse.fault))
      return excuse.why;
  return "not known why";
}

struct Score {
  size_t seeded = 0;
  std::vector<std::string> survivors;
};

/// Breaks the kernels of a step.
class Trial {
public:
  Trial(LoweredModel &model, const Runs &runs, Score &score)
      : model(model), step(model, runs, 21), score(score) {
    step.run({}, /*check=*/true);
  }

  /// Seeds all faults into the kernels whose names begin with `name`, each once; `most` kernels.
  void seedInto(const std::string &name, size_t most = SIZE_MAX) {
    std::set<std::string> tried;
    for (size_t i = 0; i < step.launches.size() && tried.size() < most; ++i) {
      std::string kernel = nameOf(i);
      if (!kernel.starts_with(name) || !tried.insert(kernel).second)
        continue;
      const GpuKernel &right = model.compiled(step.launches[i].kernel);
      for (const Fault &fault : faults)
        for (const Mutant &mutant : mutantsOf(right.ptx, fault))
          count(i, right.withPtx(mutant.text), mutant.what);
      // What catches the faults is no fault of the trial's.
      EXPECT_EQ(attempt(i, right), "") << kernel;
    }
    EXPECT_FALSE(tried.empty()) << "no kernel " << name;
  }

  /// Faults of what the compiler says of an attention.
  void seedIntoAttributes() {
    seedInto("a key less", [](kernel::AttentionOp op) {
      op.setWindow(op.getWindow() ? op.getWindow() - 1 : 150);
    });
    seedInto("a key more", [](kernel::AttentionOp op) {
      op.setWindow(op.getWindow() ? op.getWindow() + 1 : 200);
    });
    seedInto("a wrong scale",
             [](kernel::AttentionOp op) { op.setScale(llvm::APFloat(1.0 + 0x1p-5)); });
    seedInto("a ring of another length", [](kernel::AttentionOp op) {
      kernel::PagingAttr paging = op.getPaging();
      int64_t ring = paging.getRing() ? paging.getRing() - 1 : 8;
      op.setPagingAttr(kernel::PagingAttr::get(op.getContext(), paging.getPage(), ring));
    });
  }

private:
  std::string nameOf(size_t launch) { return step.launches[launch].kernel.getSymName().str(); }

  void seedInto(const std::string &fault, llvm::function_ref<void(kernel::AttentionOp)> change) {
    for (size_t i = 0; i < step.launches.size(); ++i) {
      mlir::OwningOpRef<kernel::FuncOp> broken = step.launches[i].kernel.clone();
      bool changed = false;
      broken->walk([&](kernel::AttentionOp op) {
        change(op);
        changed = true;
      });
      if (changed)
        count(i, GpuKernel(*broken), fault);
    }
  }

  /// What is found, in the first order and mode in which something is.
  std::string attempt(size_t launch, const GpuKernel &kernel) {
    for (Mode mode : modes(/*all=*/false)) {
      emu::LaunchOptions options = optionsOf(mode, 5);
      options.instructionLimit = 300000;
      if (std::string problem = step.attempt(launch, kernel, options); !problem.empty())
        return problem;
    }
    return "";
  }

  void count(size_t launch, const GpuKernel &broken, const std::string &fault) {
    ++score.seeded;
    if (attempt(launch, broken).empty())
      score.survivors.push_back(step.variant + ", " + nameOf(launch) + ": " + fault + " (" +
                                excuseOf(nameOf(launch), fault) + ")");
  }

  LoweredModel &model;
  LoweredStep step;
  Score &score;
};

ModelConfig model() {
  ModelConfig config;
  config.vocab = 72;
  config.hidden = 264; // a block of columns more than a ring has stages, and not a full one
  config.intermediate = 72;
  config.heads = 4;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.sliding = {.kvHeads = 2, .headDim = 32, .window = 150, .rope = {1e4, 32, 32, 16}};
  config.global = {.kvHeads = 1, .headDim = 64, .rope = {1e6, 64, 64, 8}, .valuesAreKeys = true};
  config.rmsEps = 0.05; // large enough for its sign to show
  config.softcap = 30;
  return config;
}

/// At least 95 of a hundred are caught; those that are not are printed.
void judge(const Score &score, size_t atLeast) {
  std::cout << score.seeded << " faults, " << score.survivors.size() << " not caught\n";
  for (const std::string &survivor : score.survivors)
    std::cout << "  " << survivor << "\n";
  EXPECT_GE(score.seeded, atLeast);
  EXPECT_LE(score.survivors.size() * 20, score.seeded);
}

TEST(GpuMutation, SeededFaultsAreCaught) {
  // Contractions differ in their numbers alone: every day one of each kind.
  size_t most = wantsLongTests() ? SIZE_MAX : 1;
  Score score;
  for (bool sharedKeys : {false, true}) {
    if (sharedKeys && !wantsLongTests())
      break;
    LoweredModel lowered(model(), {.context = 512, .batch = 40, .chunk = 80}, sharedKeys,
                         /*deterministic=*/true);
    { // all kernels of a decode step, with tiles of 8 tokens
      Trial trial(lowered, {{1, 300}, {1, 151}, {1, 17}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}},
                  score);
      for (const char *kernel : {"embed", "input_norm", "post_mix_norm", "post_ffn_norm",
                                 "select_rows", "lm_head", "attn_core"})
        trial.seedInto(kernel);
      trial.seedInto("attn_qkv_proj", most);
      trial.seedInto("mlp_gate_up", most);
      trial.seedIntoAttributes();
    }
    { // contractions with tiles of 32 tokens
      Trial trial(lowered, Runs(32, {1, 2}), score);
      trial.seedInto("attn_qkv_proj", most);
      trial.seedInto("mlp_gate_up", most);
    }
    { // and of 64
      Trial trial(lowered, {{60, 60}, {4, 10}}, score);
      trial.seedInto("attn_qkv_proj", most);
      trial.seedInto("mlp_gate_up", most);
    }
    { // attention with tiles of 32 and 16 queries, ragged
      Trial trial(lowered, {{35, 300}, {3, 17}}, score);
      trial.seedInto("attn_qk_norm");
      trial.seedInto("attn_core");
      trial.seedIntoAttributes();
    }
  }
  { // as many tiles of a row as keep every thread of the search for its largest busy
    ModelConfig wide = model();
    wide.vocab = int64_t{300} * 64;
    wide.hidden = 40;
    wide.layerKinds = {LayerKind::Sliding};
    LoweredModel lowered(wide, {.context = 512, .batch = 16, .chunk = 16}, /*sharedKeys=*/false,
                         /*deterministic=*/true);
    Trial trial(lowered, Runs(12, {1, 9}), score); // the largest lies elsewhere in each
    trial.seedInto("top_k");
  }
  judge(score, 300);
}

TEST(GpuMutation, SeededFaultsInSharedWorkAreCaught) {
  // In a model this small a block's run has two steps or one tile of keys, so that nothing would go
  // round a ring: here the runs are longer, over parts of several tiles, and so are the keys.
  ModelConfig config = model();
  config.hidden = 584; // 10 blocks of columns, the last one with 8
  config.sliding.window = 1200;
  LoweredModel lowered(config, {.context = 4096, .batch = 32, .chunk = 80}, /*sharedKeys=*/false);
  // More steps each than a ring has stages, and one more for some.
  lowered.shareAmong(6);
  size_t most = wantsLongTests() ? SIZE_MAX : 1;
  Score score;
  {
    Trial trial(lowered, Runs(8, {1, 2}), score);
    trial.seedInto("attn_qkv_proj", most);
    if (wantsLongTests()) {
      trial.seedInto("attn_o_proj");
      trial.seedInto("mlp_gate_up");
    }
  }
  { // norms in the projection, of as many tokens as there are
    Trial trial(lowered, {{1, 40}, {1, 2}, {1, 17}}, score);
    trial.seedInto("attn_qkv_proj", most);
    if (wantsLongTests())
      trial.seedInto("mlp_gate_up");
  }
  { // splits of several tiles of keys each
    Runs runs(9, {1, 2});
    runs[0] = {1, 4000};
    runs[1] = {1, 1300};
    runs[2] = {1, 500};
    Trial trial(lowered, runs, score);
    trial.seedInto("attn_core", most);
    trial.seedIntoAttributes();
  }
  if (wantsLongTests()) { // tiles of 32 tokens, full
    Trial trial(lowered, Runs(32, {1, 2}), score);
    trial.seedInto("attn_qkv_proj");
  }
  judge(score, wantsLongTests() ? 200 : 70);
}

} // namespace
} // namespace gemma::test
