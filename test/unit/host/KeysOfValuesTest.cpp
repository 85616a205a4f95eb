// kernel.attention over values alone against plain loops in extended precision, at any position:
// keys are rope(w ⊙ v) with angles that no table made.
#include "HostKernelHarness.h"
#include "runtime/engine/AngleTables.h"

#include <cmath>
#include <cstring>

namespace gemma::codegen::test {
namespace {

using Real = long double;

struct Case {
  const char *compute, *cache;
  int headDim, rot, active, group, kvHeads;
  double theta = 1e6;
  int parts = 1; ///< that the query heads of a KV head are cut into
};

constexpr int page = 16;

bool coded(const Case &c) { return c.cache == std::string("i8"); }

std::string kernelText(const Case &c, int queryTile, int tablePages) {
  auto n = [](int64_t value) { return std::to_string(value) + "x"; };
  std::string q = "memref<?x" + n(c.group * c.kvHeads) + n(c.headDim) + c.compute + ">";
  std::string v = "memref<?x" + n(c.kvHeads) + n(page) + n(c.headDim) + c.cache + ">";
  std::string w = "memref<" + n(c.headDim) + c.compute + ">";
  std::string angles = "memref<512x" + n(c.active) + c.compute + ">";
  std::string list = "memref<?xi32>", table = "memref<?x" + n(tablePages) + "i32>";
  std::string read = " {kernel.access = #kernel.access<read>}, ";
  std::string scale = "memref<?x" + n(c.kvHeads) + n(page) + "f32>", parameter, scales;
  if (coded(c)) {
    parameter = "%vs: " + scale + read;
    scales = " scales(%vs : " + scale + ")";
  }
  return "kernel.func @k(%q: " + q + read + "%v: " + v + read + parameter + "%w: " + w + read +
         "%ch: " + angles + read + "%sh: " + angles + read + "%cl: " + angles + read +
         "%sl: " + angles + read + "%rs: " + list + read + "%len: " + list + read +
         "%slots: " + list + read + "%pt: " + table + read + "%out: " + q +
         " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R]"
         " -> ((T floordiv " +
         std::to_string(queryTile) + " + B) * " + std::to_string(c.kvHeads * c.parts) +
         ")> {\n kernel.grid %j {\n kernel.attention block %j q(%q : " + q +
         ") keys_of_values(%w, %ch, %sh, %cl, %sl : " + w + ", " + angles + ", " + angles + ", " +
         angles + ", " + angles + ") rot " + std::to_string(c.rot) + " v(%v : " + v + ")" + scales +
         " out(%out : " + q + ") batch(%rs, %len, %slots, %pt : " + list + ", " + list + ", " +
         list + ", " + table + ") query_tile " + std::to_string(queryTile) +
         " window 0 scale 0.25 paging <page = 16, ring = 0> accumulate " + c.compute +
         (c.parts > 1 ? " {head_parts = " + std::to_string(c.parts) + " : i64}" : "") +
         "\n }\n kernel.return\n}\n";
}

/// Sequences whose pages lie in `physicalPages` pages, used again and again: long contexts take
/// little memory, while every position has a key of its own.
struct Problem {
  Case c;
  std::vector<int> runs, lengths, starts = {0};
  int tablePages, physicalPages, tokens = 0;
  Buffer q, v, vScales, w, angles[4], rowStarts, seqLens, slots, table;

  Problem(const Case &c, std::vector<int> runs, std::vector<int> lengths, int physicalPages)
      : c(c), runs(runs), lengths(lengths), physicalPages(physicalPages), q("f32", 0), v("f32", 0),
        vScales("f32", 0), w("f32", 0), angles{{"f32", 0}, {"f32", 0}, {"f32", 0}, {"f32", 0}},
        rowStarts("i32", 0), seqLens("i32", 0), slots("i32", 0), table("i32", 0) {
    int longest = 0;
    for (size_t b = 0; b < runs.size(); ++b) {
      starts.push_back(starts.back() + runs[b]);
      longest = std::max(longest, lengths[b]);
    }
    tokens = starts.back();
    tablePages = (longest + page - 1) / page;
    std::vector<int> tableList, slotList(runs.size(), 0);
    for (size_t b = 0; b < runs.size(); ++b)
      for (int i = 0; i < tablePages; ++i)
        tableList.push_back(int(b) * physicalPages + i * 7 % physicalPages);
    rowStarts = Buffer::integers(starts);
    seqLens = Buffer::integers(lengths);
    slots = Buffer::integers(slotList);
    table = Buffer::integers(tableList);
    q = Buffer::random(c.compute, int64_t(tokens) * c.group * c.kvHeads * c.headDim, 7, 2.0);
    w = Buffer::random(c.compute, c.headDim, 8, 1.5);
    v = Buffer::random(c.cache, int64_t(runs.size()) * physicalPages * c.kvHeads * page * c.headDim,
                       9);
    if (coded(c)) { // any codes, with scales that differ from position to position
      vScales = Buffer::random("f32", v.size() / c.headDim, 10, 0.01);
      std::mt19937_64 engine(9);
      std::uniform_int_distribution<int> code(-127, 127);
      for (int64_t i = 0; i < v.size(); ++i)
        v.set(i, code(engine));
    }
    // What no query sees is NaN: behind the end of a sequence whose last page is its own.
    for (size_t b = 0; b < runs.size(); ++b)
      if (tablePages <= physicalPages)
        for (int p = lengths[b]; p < tablePages * page; ++p)
          for (int h = 0; h < c.kvHeads; ++h)
            for (int d = 0; d < c.headDim; ++d)
              coded(c) ? vScales.set(valueAt(int(b), p, h, 0) / c.headDim, NAN)
                       : v.set(valueAt(int(b), p, h, d), NAN);
    bool wide = std::string(c.compute) == "f64";
    TablePlan plan{"angles", c.theta, c.rot, c.active, wide ? ScalarType::F64 : ScalarType::F32};
    for (size_t lane = 0; lane < 4; ++lane) {
      angles[lane] = Buffer(c.compute, int64_t(512) * c.active);
      std::memcpy(angles[lane].data(), laneOf(plan, lane).data(), laneOf(plan, lane).size());
    }
  }

  static std::vector<std::byte> laneOf(const TablePlan &plan, size_t lane);

  int64_t valueAt(int b, int p, int h, int d) const {
    int64_t physical = table.get(int64_t(b) * tablePages + p / page);
    return ((physical * c.kvHeads + h) * page + p % page) * c.headDim + d;
  }

  Real value(int b, int p, int h, int d) const {
    int64_t at = valueAt(b, p, h, d);
    return Real(v.get(at)) * (coded(c) ? Real(vScales.get(at / c.headDim)) : 1);
  }

  std::vector<Real> key(int b, int p, int h) const {
    std::vector<Real> k(c.headDim);
    for (int d = 0; d < c.headDim; ++d)
      k[d] = value(b, p, h, d) * w.get(d);
    for (int i = 0; i < c.active; ++i) {
      Real angle = p * std::pow(Real(c.theta), -2 * Real(i) / c.rot);
      Real cosine = std::cos(angle), sine = std::sin(angle);
      Real x = k[i], y = k[i + c.rot / 2];
      k[i] = x * cosine - y * sine;
      k[i + c.rot / 2] = y * cosine + x * sine;
    }
    return k;
  }

  /// Queries of all tokens against plain keys.
  std::vector<double> expected() const {
    int heads = c.group * c.kvHeads;
    std::vector<double> want(size_t(tokens) * heads * c.headDim);
    for (size_t b = 0; b < runs.size(); ++b)
      for (int h = 0; h < c.kvHeads; ++h) {
        std::vector<std::vector<Real>> keys;
        for (int p = 0; p < lengths[b]; ++p)
          keys.push_back(key(int(b), p, h));
        for (int i = 0; i < runs[b]; ++i)
          for (int g = 0; g < c.group; ++g) {
            int64_t at = (int64_t(starts[b] + i) * heads + h * c.group + g) * c.headDim;
            attend(int(b), lengths[b] - runs[b] + i, h, at, keys, want);
          }
      }
    return want;
  }

  void attend(int b, int position, int h, int64_t at, const std::vector<std::vector<Real>> &keys,
              std::vector<double> &want) const {
    std::vector<Real> weights, out(c.headDim, 0);
    Real highest = -INFINITY, sum = 0;
    for (int p = 0; p <= position; ++p) {
      Real score = 0;
      for (int d = 0; d < c.headDim; ++d)
        score += q.get(at + d) * keys[p][d];
      weights.push_back(score * 0.25L);
      highest = std::max(highest, weights.back());
    }
    for (Real &weight : weights)
      sum += weight = std::exp(weight - highest);
    for (int p = 0; p <= position; ++p)
      for (int d = 0; d < c.headDim; ++d)
        out[d] += weights[p] / sum * value(b, p, h, d);
    for (int d = 0; d < c.headDim; ++d)
      want[at + d] = double(out[d]);
  }

  Buffer run(HostModule &module, int queryTile, int64_t range) {
    Buffer out(c.compute, q.size(), NAN);
    int64_t rows = runs.size(), longest = 0, run = 0;
    for (int64_t b = 0; b < rows; ++b) {
      longest = std::max<int64_t>(longest, lengths[b]);
      run = std::max<int64_t>(run, runs[b]);
    }
    std::vector<Buffer *> arguments = {&q, &v};
    if (coded(c))
      arguments.push_back(&vScales);
    arguments.insert(arguments.end(), {&w, &angles[0], &angles[1], &angles[2], &angles[3],
                                       &rowStarts, &seqLens, &slots, &table, &out});
    module.run("k", {tokens, rows, run, longest, rows}, arguments,
               (tokens / queryTile + rows) * c.kvHeads * c.parts, range);
    return out;
  }
};

std::vector<std::byte> Problem::laneOf(const TablePlan &plan, size_t lane) {
  std::vector<std::byte> bytes(size_t(512 * plan.active) * byteWidth(plan.elem));
  fillAngleLane(plan, lane, bytes);
  return bytes;
}

void check(const Case &c, const std::vector<int> &runs, const std::vector<int> &lengths,
           int physicalPages, double bound) {
  SCOPED_TRACE(testing::Message() << c.compute << " cache " << c.cache << " D " << c.headDim
                                  << " rot " << c.rot << " active " << c.active << " G "
                                  << c.group);
  Problem problem(c, runs, lengths, physicalPages);
  std::vector<double> want = problem.expected();
  std::map<std::string, Buffer> alone; // by variant
  for (int queryTile : {1, 4})
    forEachIsa(kernelText(c, queryTile, problem.tablePages), [&](HostModule &module) {
      Buffer out = problem.run(module, queryTile, 1000000);
      EXPECT_LE(relativeError(out, want), bound);
      EXPECT_TRUE(out == problem.run(module, queryTile, 1));
      // Tiles of one query and of four give the same bits.
      auto [it, first] = alone.try_emplace(module.isa(), out);
      if (!first) {
        EXPECT_TRUE(out == it->second) << "the result depends on the tile";
      }
    });
}

// A first token, a decode step, a chunk across the border of 512, a whole prompt.
const std::vector<int> someRuns = {1, 1, 5, 19}, someLengths = {1, 101, 515, 50};

TEST(KeysOfValuesTest, HeadDimensions) {
  for (auto [headDim, rot, active] :
       {std::tuple(16, 16, 2), {16, 16, 8}, {20, 12, 3}, {64, 64, 8}, {144, 144, 17}})
    check({"f64", "f64", headDim, rot, active, 2, 2}, someRuns, someLengths, 40, 4e-15);
}

TEST(KeysOfValuesTest, SmallFloats) {
  check({"f32", "f32", 64, 64, 8, 4, 1}, someRuns, someLengths, 40, 3e-6);
  check({"f32", "bf16", 64, 64, 8, 3, 2}, someRuns, someLengths, 40, 3e-6);
}

TEST(KeysOfValuesTest, Codes) {
  check({"f32", "i8", 64, 64, 8, 4, 1}, someRuns, someLengths, 40, 3e-6);
  check({"f32", "i8", 20, 12, 3, 3, 2}, someRuns, someLengths, 40, 3e-6);
  check({"f32", "i8", 512, 512, 64, 16, 1}, {1, 3}, {530, 20}, 40, 1e-5);
}

TEST(KeysOfValuesTest, TrueHeads) {
  // The 12B's: 16 query heads on one KV head of 512, 64 active pairs.
  check({"f64", "f64", 512, 512, 64, 16, 1}, {1, 3}, {530, 20}, 40, 1e-13);
  check({"f32", "bf16", 512, 512, 64, 16, 1}, {1, 3}, {530, 20}, 40, 1e-5);
}

/// Blocks that share the query heads of a KV head give the bits of one that has them all.
TEST(KeysOfValuesTest, PartsOfTheHeads) {
  Case whole{"f32", "bf16", 64, 64, 16, 16, 2};
  check(whole, someRuns, someLengths, 40, 3e-6);
  std::map<std::string, std::vector<Buffer>> outputs; // by variant
  for (int parts : {1, 2, 4}) {
    Case c = whole;
    c.parts = parts;
    Problem problem(c, someRuns, someLengths, 40);
    for (int queryTile : {1, 4})
      forEachIsa(kernelText(c, queryTile, problem.tablePages), [&](HostModule &module) {
        outputs[module.isa()].push_back(problem.run(module, queryTile, 3));
      });
  }
  for (auto &[isa, list] : outputs)
    for (const Buffer &output : list)
      EXPECT_TRUE(output == list.front()) << isa;
}

TEST(KeysOfValuesTest, LongContexts) {
  // The last position of all, 262143, where one f64 angle would lose 2e-11.
  check({"f64", "f64", 16, 16, 4, 2, 1}, {1, 3}, {262144, 131073}, 64, 1e-13);
  // All pairs active, and fast ones.
  check({"f64", "f64", 16, 16, 8, 1, 1, 1e4}, {2}, {262144}, 64, 1e-13);
}

} // namespace
} // namespace gemma::codegen::test
