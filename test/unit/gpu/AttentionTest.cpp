// Attention on the emulated device against softmax in double.
#include "test/unit/gpu/GpuKernelHarness.h"

#include <cmath>
#include <sstream>

namespace gemma::test {
namespace {

constexpr int64_t page = 16, tableWidth = 64, mostTickets = 16;

struct Case {
  int64_t heads, kvHeads, dim;
  int64_t queryTile, window; ///< window 0: all keys
  int64_t ring;              ///< pages of a sequence's ring; 0: a page table
  int64_t keys, stages, threads;
  bool f32 = false;   ///< q and out
  int64_t active = 0; ///< not 0: the cache has values alone, this many pairs of a key are rotated
  int64_t splits = 1, run = 1; ///< blocks that share keys, and the fewest tiles of one
};

constexpr double theta = 1.0e4;

/// New tokens and length of each sequence, the new tokens included.
using Batch = std::vector<std::pair<int64_t, int64_t>>;

std::string kernelText(const Case &c) {
  std::ostringstream q, o, k, v, text;
  q << "memref<?x" << c.heads * c.splits << "x" << c.dim << (c.f32 ? "xf32>" : "xbf16>");
  o << "memref<?x" << c.heads << "x" << c.dim << (c.f32 ? "xf32>" : "xbf16>");
  k << "memref<?x" << c.kvHeads << "x" << c.dim << "x16xbf16>";
  v << "memref<?x" << c.kvHeads << "x16x" << c.dim << "xbf16>";
  const char *read = " {kernel.access = #kernel.access<read>}";
  // Arguments and operands that give the keys.
  std::string keyArguments = "%k: " + k.str() + read, keyOperands = "k(%k : " + k.str() + ")";
  if (c.active) {
    std::string w = "memref<" + std::to_string(c.dim) + "xf32>";
    std::string lane = "memref<512x" + std::to_string(c.active) + "xf32>";
    keyArguments = "%w: " + w + read;
    keyOperands = "keys_of_values(%w";
    for (const char *name : {"%ch", "%sh", "%cl", "%sl"}) {
      keyArguments += std::string(", ") + name + ": " + lane + read;
      keyOperands += std::string(", ") + name;
    }
    keyOperands += " : " + w;
    for (int i = 0; i < 4; ++i)
      keyOperands += ", " + lane;
    keyOperands += ") rot " + std::to_string(c.dim);
  }
  std::string sharedArguments, sharedOperands;
  if (c.splits > 1) {
    std::ostringstream parts;
    parts << "memref<?x" << c.kvHeads << "x" << c.splits << "x" << c.heads / c.kvHeads << "x"
          << c.dim + 4 << "xf32>";
    std::string tickets = "memref<" + std::to_string(mostTickets) + "xi32>";
    const char *both = " {kernel.access = #kernel.access<readwrite>}";
    sharedArguments = ", %parts: " + parts.str() + both + ", %tickets: " + tickets + both;
    sharedOperands = " partials(%parts : " + parts.str() + ") tickets(%tickets : " + tickets + ")";
  }
  text << "kernel.func @k(%q: " << q.str() << read << ", " << keyArguments << ", %v: " << v.str()
       << read << ", %o: " << o.str()
       << " {kernel.access = #kernel.access<write>}, %r: memref<?xi32>" << read
       << ", %l: memref<?xi32>" << read << ", %s: memref<?xi32>" << read << ", %p: memref<?x"
       << tableWidth << "xi32>" << read << sharedArguments
       << ") grid affine_map<()[T, B, Q, S, R] -> (" << c.kvHeads * c.splits << " * ("
       << (c.splits > 1 ? std::string() : "T floordiv " + std::to_string(c.queryTile) + " + ")
       << "B))> attributes {launch = #kernel.launch<threads = " << c.threads
       << ", shared = 166912>} {\n kernel.grid %j {\n kernel.attention block %j q(%q : " << q.str()
       << ") " << keyOperands << " v(%v : " << v.str() << ") out(%o : " << o.str()
       << ") batch(%r, %l, %s, %p : memref<?xi32>, memref<?xi32>, memref<?xi32>, memref<?x"
       << tableWidth << "xi32>)" << sharedOperands << " query_tile " << c.queryTile << " window "
       << c.window << " scale 0.5 paging <page = 16, ring = " << c.ring
       << "> accumulate f32 {gpu_tile = #kernel.flash<keys = " << c.keys
       << ", stages = " << c.stages << ", splits = " << c.splits << ", run = " << c.run
       << ">}\n }\n kernel.return\n}\n";
  return text.str();
}

/// Inputs of a step in device memory; caches hold NaN except where a key is visible.
struct Step {
  Step(const Case &c, const Batch &batch) : c(c), batch(batch) {
    std::vector<int32_t> rowStarts = {0}, seqLens, slots, table;
    int64_t pages = 0;
    for (size_t b = 0; b < batch.size(); ++b) {
      rowStarts.push_back(rowStarts.back() + static_cast<int32_t>(batch[b].first));
      seqLens.push_back(static_cast<int32_t>(batch[b].second));
      slots.push_back(static_cast<int32_t>(batch.size() - 1 - b));
      for (int64_t i = 0; i < tableWidth; ++i)
        table.push_back(i * page < batch[b].second ? static_cast<int32_t>(pages++) : -1);
      longest = std::max(longest, batch[b].first);
      longestSeq = std::max(longestSeq, batch[b].second);
    }
    if (c.ring)
      pages = c.ring * static_cast<int64_t>(batch.size());
    tokens = rowStarts.back();
    auto cacheSize = static_cast<size_t>(pages * c.kvHeads * page * c.dim);
    keys = memory.allocate<uint16_t>(cacheSize, "k", true);
    values = memory.allocate<uint16_t>(cacheSize, "v", true);
    queryValues = randomValues(static_cast<size_t>(tokens * c.heads * c.dim), 5);
    auto bf16Queries = toBf16(queryValues);
    for (size_t i = 0; i < queryValues.size(); ++i)
      queryValues[i] = c.f32 ? queryValues[i] : bf16ToF32(bf16Queries[i]);
    void *q = c.f32 ? static_cast<void *>(memory.copyOf(copies(queryValues), "q"))
                    : static_cast<void *>(memory.copyOf(copies(bf16Queries), "q"));
    out = c.f32 ? static_cast<void *>(memory.allocate<float>(queryValues.size(), "out"))
                : static_cast<void *>(memory.allocate<uint16_t>(queryValues.size(), "out"));
    this->table = table;
    this->slots = slots;
    if (c.active)
      makeTables();
    for (size_t b = 0; b < batch.size(); ++b)
      fill(b);
    arguments = {q};
    if (c.active)
      arguments.insert(arguments.end(),
                       {memory.copyOf(weight, "w"), memory.copyOf(lanes[0], "cos_hi"),
                        memory.copyOf(lanes[1], "sin_hi"), memory.copyOf(lanes[2], "cos_lo"),
                        memory.copyOf(lanes[3], "sin_lo")});
    else
      arguments.push_back(keys);
    arguments.insert(arguments.end(),
                     {values, out, memory.copyOf(rowStarts, "row_starts"),
                      memory.copyOf(seqLens, "seq_lens"), memory.copyOf(slots, "slots"),
                      memory.copyOf(table, "page_table")});
    if (c.splits == 1)
      return;
    auto parts = batch.size() * static_cast<size_t>(c.splits * c.heads * (c.dim + 4));
    tickets = memory.copyOf(std::vector<int32_t>(mostTickets, 0), "tickets", false);
    arguments.insert(arguments.end(), {memory.allocate<float>(parts, "parts"), tickets});
  }

  /// Every token's queries once a split.
  template <typename T> std::vector<T> copies(const std::vector<T> &queries) const {
    std::vector<T> result;
    auto width = static_cast<std::ptrdiff_t>(c.heads * c.dim);
    for (auto token = queries.begin(); token != queries.end(); token += width)
      for (int64_t split = 0; split < c.splits; ++split)
        result.insert(result.end(), token, token + width);
    return result;
  }

  /// Angles of 512 multiples of 512 positions, and of 512 positions.
  void makeTables() {
    weight = randomValues(static_cast<size_t>(c.dim), 8, 2.0f);
    for (int level : {0, 1})
      for (int64_t p = 0; p < 512; ++p)
        for (int64_t i = 0; i < c.active; ++i) {
          double angle =
              double(level ? p : 512 * p) * std::pow(theta, -2.0 * double(i) / double(c.dim));
          lanes[static_cast<size_t>(2 * level)].push_back(float(std::cos(angle)));
          lanes[static_cast<size_t>(2 * level + 1)].push_back(float(std::sin(angle)));
        }
  }

  /// Whether a key's lane is made in shared memory: of each half the rotated ones up to a step of
  /// 16, all where the halves do not begin at one. Others are the value's, whose weight the query
  /// takes.
  bool isComputed(int64_t d) const {
    int64_t half = c.dim / 2, ofHalf = (c.active + 15) / 16 * 16;
    return half % 16 != 0 || d % half < ofHalf;
  }

  /// rope(w ⊙ v) of a position, rounded as the kernel does.
  void computeKey(size_t b, int64_t p, int64_t head) {
    std::vector<float> x;
    for (int64_t d = 0; d < c.dim; ++d)
      x.push_back(weight[static_cast<size_t>(d)] * bf16ToF32(values[valueAt(b, p, head, d)]));
    for (int64_t i = 0; i < c.active; ++i) {
      auto at = [&](int lane, int64_t row) {
        return lanes[static_cast<size_t>(lane)][static_cast<size_t>(row * c.active + i)];
      };
      float ch = at(0, p / 512), sh = at(1, p / 512), cl = at(2, p % 512), sl = at(3, p % 512);
      float cosine = ch * cl - sh * sl, sine = sh * cl + ch * sl;
      float &low = x[static_cast<size_t>(i)], &high = x[static_cast<size_t>(i + c.dim / 2)];
      float first = low * cosine - high * sine;
      high = high * cosine + low * sine;
      low = first;
    }
    for (int64_t d = 0; d < c.dim; ++d)
      keys[keyAt(b, p, head, d)] =
          isComputed(d) ? f32ToBf16(x[static_cast<size_t>(d)]) : values[valueAt(b, p, head, d)];
  }

  int64_t physical(size_t b, int64_t position) const {
    int64_t number = position / page;
    return c.ring ? slots[b] * c.ring + number % c.ring
                  : table[b * tableWidth + static_cast<size_t>(number)];
  }
  size_t keyAt(size_t b, int64_t position, int64_t head, int64_t d) const {
    return static_cast<size_t>(((physical(b, position) * c.kvHeads + head) * c.dim + d) * page +
                               position % page);
  }
  size_t valueAt(size_t b, int64_t position, int64_t head, int64_t d) const {
    return static_cast<size_t>(
        ((physical(b, position) * c.kvHeads + head) * page + position % page) * c.dim + d);
  }
  int64_t firstVisible(int64_t position) const {
    return c.window ? std::max<int64_t>(position - c.window + 1, 0) : 0;
  }

  void fill(size_t b) {
    auto [fresh, length] = batch[b];
    std::mt19937 generator(static_cast<uint32_t>(b) + 17);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int64_t p = firstVisible(length - fresh); p < length; ++p)
      for (int64_t head = 0; head < c.kvHeads; ++head) {
        for (int64_t d = 0; d < c.dim; ++d) {
          keys[keyAt(b, p, head, d)] = f32ToBf16(uniform(generator));
          values[valueAt(b, p, head, d)] = f32ToBf16(uniform(generator));
        }
        if (c.active)
          computeKey(b, p, head);
      }
  }

  void expectRight() const {
    for (int64_t i = 0; tickets && i < mostTickets; ++i)
      ASSERT_EQ(tickets[i], 0) << "ticket " << i;
    int64_t token = 0;
    for (size_t b = 0; b < batch.size(); ++b)
      for (int64_t i = 0; i < batch[b].first; ++i, ++token)
        for (int64_t head = 0; head < c.heads; ++head)
          expectRow(b, batch[b].second - batch[b].first + i, token, head);
  }

  void expectRow(size_t b, int64_t position, int64_t token, int64_t head) const {
    const float *q = queryValues.data() + (token * c.heads + head) * c.dim;
    int64_t kvHead = head / (c.heads / c.kvHeads), first = firstVisible(position);
    std::vector<double> weights;
    double highest = -INFINITY, sum = 0;
    for (int64_t p = first; p <= position; ++p) {
      double score = 0;
      for (int64_t d = 0; d < c.dim; ++d) {
        float lane = c.active && !isComputed(d) ? q[d] * weight[static_cast<size_t>(d)] : q[d];
        double element = double(bf16ToF32(f32ToBf16(lane)));
        score += element * double(bf16ToF32(keys[keyAt(b, p, kvHead, d)]));
      }
      weights.push_back(0.5 * score);
      highest = std::max(highest, weights.back());
    }
    for (double &weight : weights)
      sum += weight = std::exp(weight - highest);
    for (int64_t d = 0; d < c.dim; ++d) {
      double want = 0, magnitude = 0;
      for (int64_t p = first; p <= position; ++p) {
        double part = weights[static_cast<size_t>(p - first)] / sum *
                      double(bf16ToF32(values[valueAt(b, p, kvHead, d)]));
        want += part;
        magnitude += std::fabs(part);
      }
      auto at = static_cast<size_t>((token * c.heads + head) * c.dim + d);
      double got = c.f32 ? double(static_cast<float *>(out)[at])
                         : double(bf16ToF32(static_cast<uint16_t *>(out)[at]));
      // Probabilities are rounded to bf16 once, and so is the sum that they are divided by.
      ASSERT_LE(std::fabs(got - want), magnitude * 0x1p-8 + std::fabs(want) * 0x1p-8 + 1e-5)
          << "sequence " << b << " position " << position << " head " << head << " d " << d;
    }
  }

  Case c;
  Batch batch;
  DeviceMemory memory;
  std::vector<float> queryValues;
  std::vector<int32_t> table, slots;
  std::vector<float> weight;
  std::array<std::vector<float>, 4> lanes; ///< cos and sin of the upper level, of the lower one
  uint16_t *keys = nullptr, *values = nullptr;
  void *out = nullptr;
  int32_t *tickets = nullptr;
  int64_t tokens = 0, longest = 0, longestSeq = 0;
  std::vector<void *> arguments;
};

void check(const Case &c, const std::vector<Batch> &batches, bool allModes = false) {
  GpuKernel kernel(kernelText(c));
  for (const Batch &batch : batches)
    for (Mode mode : modes(allModes)) {
      SCOPED_TRACE(testing::Message() << "first sequence " << batch[0].first << " of "
                                      << batch[0].second << ", order " << int(mode.order));
      Step step(c, batch);
      auto sequences = static_cast<int64_t>(batch.size());
      int64_t blocks = c.kvHeads * (step.tokens / c.queryTile + sequences);
      if (c.splits > 1)
        blocks = c.kvHeads * c.splits * sequences;
      kernel.run(step.memory, step.arguments,
                 {step.tokens, sequences, step.longest, step.longestSeq, 1},
                 static_cast<uint32_t>(blocks + 1), mode);
      if (!testing::Test::HasFailure())
        step.expectRight();
      if (testing::Test::HasFailure())
        return;
    }
}

TEST(GpuAttention, DecodesInEveryMode) {
  check({8, 2, 64, 1, 0, 0, 64, 2, 128}, {{{1, 70}, {1, 3}}}, true);
}

TEST(GpuAttention, DecodesAtEveryLength) {
  check({4, 2, 32, 1, 0, 0, 32, 2, 128},
        {{{1, 1}}, {{1, 15}, {1, 16}, {1, 17}}, {{1, 31}, {1, 32}, {1, 33}}, {{1, 200}}});
}

TEST(GpuAttention, SeesTheWindowOfARing) {
  check({4, 2, 32, 1, 64, 5, 32, 1, 128},
        {{{1, 1}, {1, 63}, {1, 64}, {1, 65}}, {{1, 80}, {1, 81}, {1, 143}, {1, 500}}});
}

TEST(GpuAttention, PrefillsRaggedRows) {
  check({4, 2, 32, 16, 0, 0, 64, 1, 128}, {{{5, 5}, {17, 40}, {1, 33}, {16, 16}}});
  check({4, 1, 64, 8, 64, 8, 32, 2, 128}, {{{40, 40}, {3, 100}}, {{1, 64}, {20, 200}}}, true);
}

TEST(GpuAttention, HasHeadsOf256And512) {
  check({4, 2, 256, 1, 0, 0, 64, 2, 128}, {{{1, 100}}});
  check({8, 1, 512, 1, 0, 0, 32, 1, 256}, {{{1, 40}}});
  check({2, 1, 256, 16, 64, 8, 32, 2, 256}, {{{20, 90}}});
}

TEST(GpuAttention, MakesKeysOfValues) {
  check({4, 1, 64, 1, 0, 0, 32, 2, 128, false, 8}, {{{1, 70}, {1, 3}}}, true);
  check({4, 2, 64, 8, 0, 0, 64, 1, 128, false, 32}, {{{17, 40}, {3, 300}}});
  check({8, 1, 512, 1, 0, 0, 32, 2, 256, false, 64}, {{{1, 40}}});
  check({4, 2, 96, 4, 0, 0, 32, 1, 128, true, 24}, {{{5, 40}, {1, 33}}}); // halves of 48 lanes
  check({4, 2, 32, 1, 64, 5, 16, 3, 64, false, 4}, {{{1, 130}, {1, 3}}}); // 4 pairs of 16
}

TEST(GpuAttention, SplitsKeysInEveryMode) {
  check({8, 2, 64, 1, 0, 0, 16, 2, 128, false, 0, 4}, {{{1, 70}, {1, 3}}}, true);
}

TEST(GpuAttention, SplitsKeysAtEveryLength) {
  // One tile of keys, as many as splits, one more, runs of two and a last one of one.
  check({4, 2, 32, 1, 0, 0, 16, 1, 128, false, 0, 3},
        {{{1, 1}}, {{1, 16}, {1, 17}}, {{1, 48}, {1, 49}}, {{1, 80}, {1, 200}}});
  check({4, 1, 32, 1, 0, 0, 16, 2, 128, true, 0, 40, 2}, {{{1, 31}, {1, 33}, {1, 600}}});
  // More splits than lanes; rows of several warps.
  check({16, 1, 16, 1, 0, 0, 16, 1, 64, false, 0, 64}, {{{1, 1000}, {1, 500}}});
}

TEST(GpuAttention, SplitsTheWindowAndMadeKeys) {
  check({4, 2, 32, 1, 64, 5, 16, 1, 128, false, 0, 5},
        {{{1, 1}, {1, 63}, {1, 65}}, {{1, 81}, {1, 143}, {1, 500}}});
  check({4, 1, 64, 1, 0, 0, 16, 2, 128, false, 8, 4}, {{{1, 70}, {1, 3}}});
  check({8, 1, 512, 1, 0, 0, 16, 1, 256, false, 64, 3}, {{{1, 40}}});
}

TEST(GpuAttention, HandlesSmallHeadsAndF32) {
  check({4, 2, 16, 1, 0, 0, 16, 3, 64}, {{{1, 20}}});
  check({6, 2, 48, 4, 0, 0, 32, 2, 128, true}, {{{9, 30}, {1, 7}}});
}

TEST(GpuAttention, PadsHeadsToSixteen) {
  check({6, 3, 20, 1, 16, 3, 64, 2, 128}, {{{1, 40}, {1, 3}}}, true);
  check({6, 2, 24, 8, 0, 0, 32, 2, 128}, {{{9, 30}, {1, 7}}, {{3, 70}}});
  check({4, 2, 20, 4, 0, 0, 16, 1, 64, true}, {{{9, 30}, {1, 7}}});
  check({2, 1, 18, 4, 0, 0, 32, 1, 64}, {{{5, 17}}}); // lanes by pairs
  check({6, 2, 40, 4, 0, 0, 32, 2, 128, false, 5}, {{{9, 30}, {1, 600}}}, true);
  check({4, 1, 24, 1, 0, 0, 32, 1, 128, true, 6}, {{{1, 70}}});
}

} // namespace
} // namespace gemma::test
