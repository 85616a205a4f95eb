// kernel.contract against plain loops, for all tails.
#include "HostKernelHarness.h"

#include <algorithm>
#include <cmath>

namespace gemma::codegen::test {
namespace {

struct Shape {
  int64_t rows, columns, depth;
};

/// Row-major weight [N, K] packed as the op says; `pair`: weight has 2N rows, gate then up.
Buffer pack(const Buffer &weight, int64_t columns, int64_t depth, bool pair) {
  int64_t k2 = weight.typeName() == "bf16" ? 2 : 1, packedDepth = (depth + k2 - 1) / k2 * k2;
  int64_t parts = pair ? 2 : 1, panels = (columns + 15) / 16 * parts;
  Buffer packed(weight.typeName(), panels * packedDepth * 16);
  for (int64_t part = 0; part < parts; ++part)
    for (int64_t n = 0; n < columns; ++n)
      for (int64_t k = 0; k < depth; ++k) {
        int64_t panel = n / 16 * parts + part;
        packed.set(((panel * (packedDepth / k2) + k / k2) * 16 + n % 16) * k2 + k % k2,
                   weight.get((part * columns + n) * depth + k));
      }
  return packed;
}

std::string kernelText(Shape s, const std::string &type, bool pair, int64_t panels, int rowTile) {
  bool half = type == "bf16";
  std::string compute = type == "f64" ? "f64" : "f32";
  std::string act = "memref<?x" + std::to_string(s.depth) + "x" + compute + ">";
  std::string out = "memref<?x" + std::to_string(s.columns) + "x" + compute + ">";
  int64_t allPanels = (s.columns + 15) / 16 * (pair ? 2 : 1);
  std::string weight = "memref<" + std::to_string(allPanels) + "x" +
                       std::to_string(half ? (s.depth + 1) / 2 : s.depth) + "x16x" +
                       (half ? "2x" : "") + type + ">";
  std::string body =
      pair ? "^bb0(%g: T, %u: T):\n %e = math.tanh %g : T\n %r = arith.mulf %e, %u : T\n"
           : "^bb0(%g: T):\n %c = arith.constant 2.0 : T\n %r = arith.mulf %g, %c : T\n";
  for (size_t at; (at = body.find(" T")) != std::string::npos;)
    body.replace(at, 2, " " + compute);
  return "kernel.func @k(%act: " + act + " {kernel.access = #kernel.access<read>}, %w: " + weight +
         " {kernel.access = #kernel.access<read>}, %out: " + out +
         " {kernel.access = #kernel.access<write>})"
         " grid affine_map<()[T, B, Q, S, R] -> (" +
         std::to_string((allPanels + panels - 1) / panels) +
         ")> {\n kernel.grid %j {\n kernel.contract block %j act(%act : " + act +
         ") weight(%w : " + weight + ") out(%out : " + out + ") extent <T> panels " +
         std::to_string(panels) + " row_tile " + std::to_string(rowTile) + (pair ? " pair" : "") +
         " {\n" + body + " kernel.yield %r : " + compute + "\n }\n }\n kernel.return\n}\n";
}

/// One kernel, for several numbers of rows.
void check(const std::vector<int64_t> &rowCounts, int64_t columns, int64_t depth,
           const std::string &type, bool pair, int64_t panels, int rowTile) {
  SCOPED_TRACE(testing::Message() << columns << "x" << depth << " " << type << (pair ? " pair" : "")
                                  << " panels " << panels);
  std::string compute = type == "f64" ? "f64" : "f32";
  Buffer weight = Buffer::random(type, (pair ? 2 : 1) * columns * depth, 1);
  Buffer packed = pack(weight, columns, depth, pair);
  int64_t most = *std::max_element(rowCounts.begin(), rowCounts.end());
  Buffer act = Buffer::random(compute, most * depth, 2);
  std::vector<double> want;
  for (int64_t t = 0; t < most; ++t)
    for (int64_t n = 0; n < columns; ++n) {
      double sums[2] = {0, 0};
      for (int part = 0; part < (pair ? 2 : 1); ++part)
        for (int64_t k = 0; k < depth; ++k)
          sums[part] += act.get(t * depth + k) * weight.get((part * columns + n) * depth + k);
      want.push_back(pair ? std::tanh(sums[0]) * sums[1] : 2 * sums[0]);
    }
  int64_t grid = ((columns + 15) / 16 * (pair ? 2 : 1) + panels - 1) / panels;
  forEachIsa(kernelText({most, columns, depth}, type, pair, panels, rowTile),
             [&](HostModule &module) {
               // Every row alone: what it must be in any company, to the bit.
               std::vector<double> alone;
               for (int64_t t = 0; t < most; ++t) {
                 Buffer row(compute, depth), one(compute, columns, NAN);
                 for (int64_t k = 0; k < depth; ++k)
                   row.set(k, act.get(t * depth + k));
                 module.run("k", {1, 1, 1, 1, 1}, {&row, &packed, &one}, grid);
                 for (int64_t n = 0; n < columns; ++n)
                   alone.push_back(one.get(n));
               }
               for (int64_t rows : rowCounts) {
                 SCOPED_TRACE(testing::Message() << rows << " rows");
                 // Elements more than the rows hold: they must stay as they are.
                 Buffer out(compute, rows * columns + 64, -7.0), cut = out;
                 module.run("k", {rows, 1, rows, rows, 1}, {&act, &packed, &out}, grid);
                 module.run("k", {rows, 1, rows, rows, 1}, {&act, &packed, &cut}, grid, 1);
                 EXPECT_TRUE(out == cut) << "the result depends on how the grid is cut";
                 Buffer written(compute, rows * columns);
                 for (int64_t i = 0; i < out.size(); ++i) {
                   ASSERT_EQ(out.get(i), i < rows * columns ? alone[i] : -7.0) << "element " << i;
                   if (i < rows * columns)
                     written.set(i, out.get(i));
                 }
                 EXPECT_LE(relativeError(written, {want.begin(), want.begin() + rows * columns}),
                           (type == "f64" ? 1e-14 : 2e-6) * std::max(1.0, double(depth) / 64));
               }
             });
}

class ContractTest : public testing::TestWithParam<std::tuple<const char *, bool>> {};

TEST_P(ContractTest, Tails) {
  auto [type, pair] = GetParam();
  const std::vector<int64_t> rows = {1, 7, 15, 16, 17, 37};
  for (auto [columns, depth] : {std::pair(1, 17), {7, 16}, {15, 1}, {16, 7}, {17, 15}, {37, 37}})
    check(rows, columns, depth, type, pair, 2, 8);
}

/// All sizes of all three dimensions; every day in the type that is used most.
TEST_P(ContractTest, EveryCombination) {
  auto [type, pair] = GetParam();
  if ((std::string(type) != "bf16" || pair) && !gemma::test::wantsLongTests())
    GTEST_SKIP() << "half a minute; GEMMA_LONG_TESTS=1 runs it";
  const std::vector<int64_t> sizes = {1, 7, 15, 16, 17, 37};
  for (int64_t columns : sizes)
    for (int64_t depth : sizes)
      check(sizes, columns, depth, type, pair, columns > 16 || pair ? 2 : 1, 12);
}

/// Few rows, and many: part of a tile, of a block, of several; blocks of k.
TEST_P(ContractTest, Blocks) {
  auto [type, pair] = GetParam();
  const std::vector<int64_t> rows = {1, 3, 4, 5, 6, 8, 12, 13, 37};
  check(rows, 37, 301, type, pair, 2, 12);
  check(rows, 112, 264, type, pair, 4, 12);
}

/// Blocks as programs have them: many tiles, and 16 panels.
TEST_P(ContractTest, WholeBlocks) {
  auto [type, pair] = GetParam();
  check({5, 29, 131, 132, 133, 140}, pair ? 144 : 272, 33, type, pair, 16, 132);
}

TEST_P(ContractTest, PanelsThatDoNotDivide) {
  auto [type, pair] = GetParam();
  check({1, 5, 9}, 112, 33, type, pair, 4, 4);
  check({3}, 112, 9, type, pair, 8, 1);
}

INSTANTIATE_TEST_SUITE_P(Types, ContractTest,
                         testing::Combine(testing::Values("f64", "f32", "bf16"), testing::Bool()),
                         [](const auto &info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "Pair" : "");
                         });

} // namespace
} // namespace gemma::codegen::test
