// The largest entry of each row of a contraction, found by its blocks and then among those: against
// the host's arg-max of what the contraction stored.
#include "test/unit/gpu/GpuKernelHarness.h"

#include <cmath>
#include <sstream>

namespace gemma::test {
namespace {

constexpr int64_t depth = 64;

struct Case {
  int64_t columns, rows, tokens, threads;
  int64_t segments = 0;

  int64_t groups() const { return (columns + 7) / 8; }
  int64_t tiles() const { return (8 * groups() + rows - 1) / rows; }
};

std::string contractText(const Case &c) {
  std::ostringstream text, weight, out, best, shared, parameters;
  weight << "memref<1x" << c.groups() << "x8x64xbf16>";
  out << "memref<?x" << c.columns << "xf32>";
  best << "memref<?x" << c.tiles() << "x2xi32>";
  if (c.segments) {
    std::ostringstream partials, tickets;
    partials << "memref<" << 2 * c.segments << "x" << c.rows * c.tokens << "xf32>";
    tickets << "memref<" << c.segments << "xi32>";
    parameters << ", %p: " << partials.str()
               << " {kernel.access = #kernel.access<readwrite>}, %t: " << tickets.str()
               << " {kernel.access = #kernel.access<readwrite>}";
    shared << " partials(%p : " << partials.str() << ") tickets(%t : " << tickets.str() << ")";
  }
  text << "kernel.func @k(%x: memref<?x64xbf16> {kernel.access = #kernel.access<read>}, %w: "
       << weight.str() << " {kernel.access = #kernel.access<read>}, %y: " << out.str()
       << " {kernel.access = #kernel.access<write>}, %b: " << best.str()
       << " {kernel.access = #kernel.access<write>}" << parameters.str()
       << ") grid affine_map<()[T, B, Q, S, R] -> (";
  if (c.segments)
    text << c.segments;
  else
    text << c.tiles() << " * ((R + " << c.tokens - 1 << ") floordiv " << c.tokens << ")";
  text << ")> attributes {launch = #kernel.launch<threads = " << c.threads
       << ", shared = 101376>} {\n kernel.grid %j {\n kernel.contract block %j act(%x : "
       << "memref<?x64xbf16>) weight(%w : " << weight.str() << ") out(%y : " << out.str() << ")"
       << shared.str() << " best(%b : " << best.str()
       << ") extent <R> panels 1 row_tile 1 attributes {gpu_tile = #kernel.mma<rows = " << c.rows
       << ", tokens = " << c.tokens << ", k = 64, stages = 2";
  if (c.segments)
    text << ", segments = " << c.segments;
  text << ">} {\n^bb0(%r: f32):\n kernel.yield %r : f32\n }\n }\n kernel.return\n}\n";
  return text.str();
}

std::string topkText(const Case &c) {
  std::ostringstream text, x, best;
  x << "memref<?x" << c.columns << "xf32>";
  best << "memref<?x" << c.tiles() << "x2xi32>";
  text << "kernel.func @k(%x: " << x.str()
       << " {kernel.access = #kernel.access<read>}, %b: " << best.str()
       << " {kernel.access = #kernel.access<read>}, %v: memref<?x1xf32> "
       << "{kernel.access = #kernel.access<write>}, %i: memref<?x1xi32> {kernel.access = "
       << "#kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (R)> attributes {launch = "
       << "#kernel.launch<threads = " << c.threads
       << ", shared = 256>} {\n kernel.grid %j {\n kernel.topk block %j ins(%x : " << x.str()
       << ") best(%b : " << best.str() << ") outs(%v, %i : memref<?x1xf32>, memref<?x1xi32>) k 1\n"
       << " }\n kernel.return\n}\n";
  return text.str();
}

/// As the host's: NaN is smaller than every number, of equal ones the first.
int64_t largestOf(const float *row, int64_t columns) {
  int64_t best = 0;
  for (int64_t i = 1; i < columns; ++i)
    if (row[i] > row[best] || (std::isnan(row[best]) && !std::isnan(row[i])))
      best = i;
  return best;
}

void check(const Case &c, const std::vector<int64_t> &counts, bool allModes) {
  SCOPED_TRACE(testing::Message() << c.columns << " columns, tile " << c.rows << "x" << c.tokens
                                  << ", " << c.segments << " segments");
  GpuKernel contract(contractText(c)), topk(topkText(c));
  int64_t padded = 8 * c.groups();
  std::vector<float> values = randomValues(static_cast<size_t>(c.columns * depth), 1);
  // Whole numbers make ties; here are others: two equal columns that the last row likes best, one
  // of infinities and one of both kinds.
  for (float &value : values)
    value = std::round(2 * value);
  auto column = [&](int64_t n) { return values.data() + n * depth; };
  std::copy_n(column(3), depth, column(c.columns - 2));
  column(1)[0] = INFINITY;
  column(2)[0] = INFINITY;
  column(2)[1] = -INFINITY;
  values.resize(static_cast<size_t>(padded * depth));
  auto w = packForGpu(toBf16(values), padded, depth);
  for (int64_t tokens : counts)
    for (Mode mode : modes(allModes)) {
      SCOPED_TRACE(testing::Message() << tokens << " rows, order " << int(mode.order));
      auto x = randomValues(static_cast<size_t>(tokens * depth), 2);
      for (float &value : x)
        value = std::round(2 * value);
      for (int64_t t = 0; t < tokens; ++t) // column 1: infinite in one row, NaN in the next
        x[static_cast<size_t>(t * depth)] = t % 3 == 0 ? 1.0f : t % 3 == 1 ? 0.0f : -1.0f;
      std::copy_n(column(3) + 2, depth - 2, x.data() + (tokens - 1) * depth + 2);
      x[static_cast<size_t>((tokens - 1) * depth)] = -1;
      if (tokens > 3)
        x[2 * depth + 5] = NAN; // a row of nothing else
      DeviceMemory memory;
      GemmaSizes sizes = {tokens + 7, 1, 1, 1, tokens};
      auto *y = memory.allocate<float>(static_cast<size_t>(tokens * c.columns), "y");
      auto *best = memory.allocate<int32_t>(static_cast<size_t>(tokens * c.tiles() * 2), "best");
      auto *top = memory.allocate<float>(static_cast<size_t>(tokens), "values");
      auto *ids = memory.allocate<int32_t>(static_cast<size_t>(tokens), "ids");
      std::vector<void *> arguments = {memory.copyOf(toBf16(x), "x"), memory.copyOf(w, "w"), y,
                                       best};
      int64_t blocks = c.tiles() * ((tokens + c.tokens - 1) / c.tokens) + 1;
      if (c.segments) {
        auto sums = static_cast<size_t>(2 * c.segments * c.rows * c.tokens);
        arguments.push_back(memory.allocate<float>(sums, "partials"));
        std::vector<int32_t> tickets(static_cast<size_t>(c.segments), 0);
        arguments.push_back(memory.copyOf(tickets, "tickets", /*readOnly=*/false));
        blocks = c.segments;
      }
      contract.run(memory, arguments, sizes, static_cast<uint32_t>(blocks), mode);
      topk.run(memory, {y, best, top, ids}, sizes, static_cast<uint32_t>(tokens + 1), mode);
      if (testing::Test::HasFailure())
        return;
      for (int64_t t = 0; t < tokens; ++t) {
        const float *row = y + t * c.columns;
        int64_t expected = largestOf(row, c.columns);
        ASSERT_EQ(ids[t], expected) << "row " << t;
        ASSERT_TRUE(top[t] == row[expected] || (std::isnan(top[t]) && std::isnan(row[expected])));
      }
      EXPECT_EQ(ids[tokens - 1], 3); // not the equal column after it
    }
}

TEST(GpuLargest, OfEveryRowInEveryMode) { check({200, 64, 8, 128}, {5}, true); }

TEST(GpuLargest, WhateverTheTile) {
  check({64, 64, 8, 128}, {1, 8, 9}, false);
  check({101, 32, 16, 64}, {4, 17}, false);
  check({264, 128, 64, 256}, {1, 65}, false);
  check({41, 16, 8, 32}, {7}, false);
}

TEST(GpuLargest, WhereBlocksShareTiles) { check({200, 64, 8, 128, 3}, {1, 5, 9}, false); }

} // namespace
} // namespace gemma::test
