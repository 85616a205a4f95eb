// kernel.attention against plain loops over the visible keys, with NaN in every other place.
#include "HostKernelHarness.h"

#include <cmath>

namespace gemma::codegen::test {
namespace {

struct Case {
  const char *compute, *cache;
  int window, headDim, group, kvHeads;
  bool ring;
};

constexpr int page = 16, ringPages = 4, tablePages = 8;

/// Rows of one step: how many tokens each brings, and its length with them.
struct Batch {
  std::vector<int> runs, lengths;
};

bool coded(const Case &c) { return c.cache == std::string("i8"); }

std::string kernelText(const Case &c, int queryTile) {
  auto n = [](int64_t value) { return std::to_string(value) + "x"; };
  std::string q = "memref<?x" + n(c.group * c.kvHeads) + n(c.headDim) + c.compute + ">";
  std::string k = "memref<?x" + n(c.kvHeads) + n(c.headDim) + n(page) + c.cache + ">";
  std::string v = "memref<?x" + n(c.kvHeads) + n(page) + n(c.headDim) + c.cache + ">";
  std::string list = "memref<?xi32>", table = "memref<?x" + n(tablePages) + "i32>";
  std::string read = " {kernel.access = #kernel.access<read>}, ";
  std::string scale = "memref<?x" + n(c.kvHeads) + n(page) + "f32>", parameters, scales;
  if (coded(c)) {
    parameters = "%ks: " + scale + read + "%vs: " + scale + read;
    scales = "scales(%ks, %vs : " + scale + ", " + scale + ") ";
  }
  return "kernel.func @k(%q: " + q + read + "%k: " + k + read + "%v: " + v + read + parameters +
         "%rs: " + list + read + "%sl: " + list + read + "%slots: " + list + read +
         "%pt: " + table + read + "%out: " + q +
         " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R]"
         " -> ((T floordiv " +
         std::to_string(queryTile) + " + B) * " + std::to_string(c.kvHeads) +
         ")> {\n kernel.grid %j {\n kernel.attention block %j q(%q : " + q + ") k(%k : " + k +
         ") v(%v : " + v + ") " + scales + "out(%out : " + q +
         ") batch(%rs, %sl, %slots, %pt : " + list + ", " + list + ", " + list + ", " + table +
         ") query_tile " + std::to_string(queryTile) + " window " + std::to_string(c.window) +
         " scale 0.25 paging <page = 16, ring = " + std::to_string(c.ring ? ringPages : 0) +
         "> accumulate " + c.compute + "\n }\n kernel.return\n}\n";
}

/// The step's inputs. Sequence b holds keys of its positions that some query sees; everything else
/// in the caches is NaN.
struct Problem {
  Case c;
  Batch batch;
  Buffer q, k, v, kScales, vScales, rowStarts, seqLens, slots, table;
  std::vector<double> exactKeys, exactValues; ///< as k and v, before they are rounded
  std::vector<double> want;                   ///< of what the caches hold
  std::vector<double> exact;                  ///< of what they were made from
  double codesBound = 0; ///< most that `want` may differ from `exact` where caches hold codes
  int tokens = 0;

  Problem(const Case &c, const Batch &batch, unsigned seed)
      : c(c), batch(batch), q("f32", 0), k("f32", 0), v("f32", 0), kScales("f32", 0),
        vScales("f32", 0), rowStarts("i32", 0), seqLens("i32", 0), slots("i32", 0),
        table("i32", 0) {
    int rows = batch.runs.size(), heads = c.group * c.kvHeads;
    std::vector<int> starts = {0}, slotList, tableList;
    for (int run : batch.runs)
      starts.push_back(starts.back() + run);
    tokens = starts.back();
    int pages = rows * (c.ring ? ringPages : tablePages);
    for (int b = 0; b < rows; ++b)
      slotList.push_back(rows - 1 - b);
    for (int i = 0; i < rows * tablePages; ++i)
      tableList.push_back(rows * tablePages - 1 - i);
    rowStarts = Buffer::integers(starts);
    seqLens = Buffer::integers(batch.lengths);
    slots = Buffer::integers(slotList);
    table = Buffer::integers(tableList);
    q = Buffer::random(c.compute, tokens * heads * c.headDim, seed, 2.0);
    k = Buffer(c.cache, pages * c.kvHeads * c.headDim * page, NAN);
    v = k;
    kScales = vScales = Buffer("f32", pages * c.kvHeads * page, NAN);
    exactKeys.assign(size_t(k.size()), NAN);
    exactValues = exactKeys;
    std::mt19937_64 engine(seed + 1);
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (int b = 0; b < rows; ++b) {
      int first = std::max(0, c.window ? batch.lengths[b] - batch.runs[b] - c.window + 1 : 0);
      for (int p = first; p < batch.lengths[b]; ++p)
        for (int h = 0; h < c.kvHeads; ++h) {
          for (int d = 0; d < c.headDim; ++d) {
            exactKeys[keyAt(b, p, h, d)] = uniform(engine);
            exactValues[valueAt(b, p, h, d)] = uniform(engine);
          }
          auto keyOf = [&](int d) { return keyAt(b, p, h, d); };
          auto valueOf = [&](int d) { return valueAt(b, p, h, d); };
          store(k, kScales, exactKeys, keyOf, scaleAt(b, p, h));
          store(v, vScales, exactValues, valueOf, scaleAt(b, p, h));
        }
    }
    for (int b = 0; b < rows; ++b)
      for (int i = 0; i < batch.runs[b]; ++i)
        for (int h = 0; h < heads; ++h) {
          int token = starts[b] + i, position = batch.lengths[b] - batch.runs[b] + i;
          expect(b, token, position, h, /*stored=*/true, want);
          expect(b, token, position, h, /*stored=*/false, exact);
        }
  }

  /// One row of a cache, rounded to its type: to codes as the append does.
  template <typename At>
  void store(Buffer &cache, Buffer &scales, const std::vector<double> &from, At at, int64_t scale) {
    double largest = 0;
    for (int d = 0; d < c.headDim; ++d)
      largest = std::max(largest, std::abs(from[at(d)]));
    if (coded(c))
      scales.set(scale, largest / 127);
    for (int d = 0; d < c.headDim; ++d)
      cache.set(at(d), coded(c) ? std::round(from[at(d)] / scales.get(scale)) : from[at(d)]);
  }

  int64_t scaleAt(int b, int p, int h) const {
    return (pageOf(b, p) * c.kvHeads + h) * page + p % page;
  }
  double keyOf(int b, int p, int h, int d, bool stored) const {
    int64_t at = keyAt(b, p, h, d);
    return !stored ? exactKeys[at] : k.get(at) * (coded(c) ? kScales.get(scaleAt(b, p, h)) : 1);
  }
  double valueOf(int b, int p, int h, int d, bool stored) const {
    int64_t at = valueAt(b, p, h, d);
    return !stored ? exactValues[at] : v.get(at) * (coded(c) ? vScales.get(scaleAt(b, p, h)) : 1);
  }

  int64_t pageOf(int b, int p) const {
    return c.ring ? int64_t(slots.get(b)) * ringPages + p / page % ringPages
                  : int64_t(table.get(b * tablePages + p / page));
  }
  int64_t keyAt(int b, int p, int h, int d) const {
    return ((pageOf(b, p) * c.kvHeads + h) * c.headDim + d) * page + p % page;
  }
  int64_t valueAt(int b, int p, int h, int d) const {
    return ((pageOf(b, p) * c.kvHeads + h) * page + p % page) * c.headDim + d;
  }

  /// Codes are off by half a scale: a score by at most δ = scale · |q|₁ · max s_k / 2, a weight
  /// then by a factor in e^(±2δ), and a value by s_v / 2.
  void expect(int b, int token, int position, int head, bool stored, std::vector<double> &into) {
    int first = c.window ? std::max(0, position - c.window + 1) : 0;
    std::vector<double> weights, out(c.headDim, 0.0);
    double highest = -INFINITY, sum = 0;
    for (int p = first; p <= position; ++p) {
      double score = 0, norm = 0;
      for (int d = 0; d < c.headDim; ++d) {
        double x = q.get((token * c.group * c.kvHeads + head) * c.headDim + d);
        score += x * keyOf(b, p, head / c.group, d, stored);
        norm += std::abs(x);
      }
      weights.push_back(score * 0.25);
      highest = std::max(highest, weights.back());
      // Every magnitude is below 1, and so every scale below 1 / 127.
      codesBound = std::max(codesBound, std::expm1(2 * 0.25 * norm / 254) + 1.0 / 254);
    }
    for (double &weight : weights)
      sum += weight = std::exp(weight - highest);
    for (int p = first; p <= position; ++p)
      for (int d = 0; d < c.headDim; ++d)
        out[d] += weights[p - first] / sum * valueOf(b, p, head / c.group, d, stored);
    into.insert(into.end(), out.begin(), out.end());
  }

  Buffer run(HostModule &module, int queryTile, int64_t range) {
    Buffer out(c.compute, q.size(), NAN);
    int64_t rows = batch.runs.size(), longest = 0, run = 0;
    for (int64_t b = 0; b < rows; ++b) {
      longest = std::max<int64_t>(longest, batch.lengths[b]);
      run = std::max<int64_t>(run, batch.runs[b]);
    }
    std::vector<Buffer *> arguments = {&q, &k, &v};
    if (coded(c))
      arguments.insert(arguments.end(), {&kScales, &vScales});
    arguments.insert(arguments.end(), {&rowStarts, &seqLens, &slots, &table, &out});
    module.run("k", {tokens, rows, run, longest, rows}, arguments,
               (tokens / queryTile + rows) * c.kvHeads, range);
    return out;
  }
};

void check(const Case &c) {
  SCOPED_TRACE(testing::Message() << c.compute << " cache " << c.cache << " window " << c.window
                                  << " D " << c.headDim << " G " << c.group
                                  << (c.ring ? " ring" : " paged"));
  // A first token, a decode step past the ring's wrap, a chunk, a whole prompt.
  Batch all =
      c.ring ? Batch{{1, 1, 5, 19}, {1, 101, 70, 19}} : Batch{{1, 1, 5, 19}, {1, 101, 70, 50}};
  std::map<std::string, Buffer> alone; // by variant
  for (int queryTile : {1, 4}) {
    forEachIsa(kernelText(c, queryTile), [&](HostModule &module) {
      Problem problem(c, all, 11);
      Buffer out = problem.run(module, queryTile, 1000000);
      EXPECT_LE(relativeError(out, problem.want), c.compute == std::string("f64") ? 4e-15 : 2e-6);
      if (coded(c)) {
        double difference = 0;
        for (int64_t i = 0; i < out.size(); ++i)
          difference = std::max(difference, std::abs(out.get(i) - problem.exact[i]));
        EXPECT_LE(difference, problem.codesBound + 2e-6);
        EXPECT_GT(difference, problem.codesBound / 1000) << "a bound that says nothing";
      }
      EXPECT_TRUE(out == problem.run(module, queryTile, 1));
      // Tiles of one query and of four give the same bits.
      auto [it, first] = alone.try_emplace(module.isa(), out);
      if (!first) {
        EXPECT_TRUE(out == it->second) << "the result depends on the tile";
      }
    });
  }
}

TEST(AttentionTest, Windows) {
  for (int window : {0, 1, 5, 8, 16, 17})
    check({"f64", "f64", window, 20, 2, 2, window != 0});
}

TEST(AttentionTest, HeadDimensions) {
  for (int headDim : {8, 16, 20, 32, 144})
    check({"f32", "f32", 17, headDim, 2, 1, true});
}

TEST(AttentionTest, Groups) {
  for (int group : {1, 2, 4, 5})
    check({"f32", "bf16", 0, 32, group, 2, false});
}

TEST(AttentionTest, Codes) {
  for (int headDim : {7, 16, 20, 37, 64, 144})
    check({"f32", "i8", 17, headDim, 2, 1, true});
  for (int group : {1, 3, 4})
    check({"f32", "i8", 0, 32, group, 2, false});
}

TEST(AttentionTest, OddHeadDimensions) {
  for (int headDim : {1, 7, 15, 17, 37})
    for (const char *cache : {"f32", "bf16"})
      check({"f32", cache, 17, headDim, 2, 1, true});
}

/// Two keys of scores 0 and s, both exact, with values 0 and 1 give e^s / (1 + e^s). The
/// exponential is within 1.5 ulp, which are up to 3 u, u = 2^-24 (f32) or 2^-53; the sum and the
/// quotient lose 3 u more at most.
TEST(AttentionTest, Exponentials) {
  constexpr int headDim = 16, group = 8, rows = 1000;
  for (const char *type : {"f32", "f64"}) {
    SCOPED_TRACE(type);
    bool wide = type == std::string("f64");
    double lowest = wide ? -708 : -87, unit = wide ? 0x1p-53 : 0x1p-24;
    Case c{type, type, 0, headDim, group, 1, false};
    Problem problem(c, {std::vector<int>(rows, 1), std::vector<int>(rows, 2)}, 31);
    // Heads divide the scores by powers of 2; the first sequences go beyond the range.
    for (int64_t i = 0; i < problem.q.size(); ++i)
      problem.q.set(i, i % headDim == 0 ? std::ldexp(4.0, -int(i / headDim % group)) : 0);
    auto score = [&](int b) { return lowest * 1.02 * (rows - b) / rows; };
    for (int b = 0; b < rows; ++b)
      for (int p : {0, 1})
        for (int d = 0; d < headDim; ++d) {
          problem.k.set(problem.keyAt(b, p, 0, d), p == 1 && d == 0 ? score(b) : 0);
          problem.v.set(problem.valueAt(b, p, 0, d), p);
        }
    forEachIsa(kernelText(c, 1), [&](HostModule &module) {
      Buffer out = problem.run(module, 1, 1000000);
      double worst = 0;
      for (int64_t row = 0; row < rows * group; ++row) {
        double x = problem.k.get(problem.keyAt(int(row / group), 1, 0, 0)) *
                   std::ldexp(1.0, -int(row % group));
        double got = out.get(row * headDim);
        if (x < lowest) {
          EXPECT_EQ(got, 0) << x;
          continue;
        }
        long double e = std::exp(static_cast<long double>(x)), want = e / (1 + e);
        worst = std::max(worst, double(std::fabs(got - want) / want) / unit);
      }
      EXPECT_LE(worst, 6);
      EXPECT_GT(worst, 0.5);
      RecordProperty(std::string(type) + "_" + module.isa(), std::to_string(worst));
    });
  }
}

TEST(AttentionTest, PagedWithWindow) { check({"f64", "f64", 40, 32, 3, 1, false}); }

} // namespace
} // namespace gemma::codegen::test
