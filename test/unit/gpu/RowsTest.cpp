// Rows and top-k on the emulated device.
#include "test/unit/gpu/GpuKernelHarness.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace gemma::test {
namespace {

/// x · w / sqrt(mean(x²) + eps), out in bf16.
std::string normText(int64_t n, int64_t threads) {
  std::ostringstream text;
  std::string row = "tensor<" + std::to_string(n) + "xf32>";
  std::string x = "memref<?x" + std::to_string(n) + "xf32>";
  std::string w = "memref<" + std::to_string(n) + "xbf16>";
  std::string y = "memref<?x" + std::to_string(n) + "xbf16>";
  text << "kernel.func @k(%x: " << x << " {kernel.access = #kernel.access<read>}, %w: " << w
       << " {kernel.access = #kernel.access<read>}, %y: " << y
       << " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (T)>"
       << " attributes {launch = #kernel.launch<threads = " << threads
       << ", shared = 128>} {\n kernel.grid %j {\n kernel.rows block %j domain "
       << "affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T> ins(%x, %w : " << x << ", "
       << w << ") outs(%y : " << y << ") maps [affine_map<(t, h, e) -> (t, e)>, "
       << "affine_map<(t, h, e) -> (e)>, affine_map<(t, h, e) -> (t, e)>] {\n^bb0(%r: " << row
       << ", %g: " << row << "):\n %sq = arith.mulf %r, %r : " << row
       << "\n %ss = kernel.reduce add %sq : " << row << "\n %c = arith.constant " << 1.0 / double(n)
       << " : f32\n %m = arith.mulf %ss, %c : f32\n %q = math.sqrt %m : f32\n"
       << " %one = arith.constant 1.0 : f32\n %i = arith.divf %one, %q : f32\n"
       << " %s = tensor.splat %i : " << row << "\n %n = arith.mulf %r, %s : " << row
       << "\n %o = arith.mulf %n, %g : " << row << "\n kernel.yield %o : " << row
       << "\n }\n }\n kernel.return\n}\n";
  return text.str();
}

TEST(GpuRows, NormsRowsOfAnyLength) {
  for (auto [n, threads] : {std::pair<int64_t, int64_t>{192, 128},
                            {3840, 480},
                            {3840, 256},
                            {5376, 96},
                            {63, 64},
                            {6, 32}}) {
    SCOPED_TRACE(testing::Message() << n << " elements, " << threads << " threads");
    GpuKernel kernel(normText(n, threads));
    const int64_t tokens = 3;
    auto x = randomValues(static_cast<size_t>(tokens * n), 1);
    auto w = toBf16(randomValues(static_cast<size_t>(n), 2));
    for (Mode mode : modes(false)) {
      DeviceMemory memory;
      auto *y = memory.allocate<uint16_t>(static_cast<size_t>(tokens * n), "y");
      kernel.run(memory, {memory.copyOf(x, "x"), memory.copyOf(w, "w"), y}, {tokens, 1, 3, 3, 1}, 5,
                 mode);
      for (int64_t t = 0; t < tokens; ++t) {
        double squares = 0;
        for (int64_t e = 0; e < n; ++e)
          squares += std::pow(double(x[static_cast<size_t>(t * n + e)]), 2);
        for (int64_t e = 0; e < n; ++e) {
          double want = double(x[static_cast<size_t>(t * n + e)]) / std::sqrt(squares / double(n)) *
                        double(bf16ToF32(w[static_cast<size_t>(e)]));
          double got = double(bf16ToF32(y[static_cast<size_t>(t * n + e)]));
          ASSERT_NEAR(got, want, std::fabs(want) * 0x1.02p-8) << t << " " << e;
        }
      }
    }
  }
}

// Each head's row minus its maximum, halves exchanged, to a transposed place that a lookup names.
constexpr const char *headsText = R"(
kernel.func @k(%x: memref<?x512xbf16> {kernel.access = #kernel.access<read>},
               %slots: memref<?xi32> {kernel.access = #kernel.access<read>},
               %y: memref<?x4x128x16xbf16> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 96, shared = 2048>} {
  %s = kernel.scratch : memref<4x128xf32>
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 4)> extent <T>
      ins(%x : memref<?x512xbf16>) outs(%s : memref<4x128xf32>)
      maps [affine_map<(t, h, e) -> (t, h * 128 + e)>, affine_map<(t, h, e) -> (h, e)>] {
    ^bb0(%r: tensor<128xf32>):
      %m = kernel.reduce max %r : tensor<128xf32>
      %ms = tensor.splat %m : tensor<128xf32>
      %d = arith.subf %r, %ms : tensor<128xf32>
      kernel.yield %d : tensor<128xf32>
    }
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 4)> extent <T>
      lookup(%slots : memref<?xi32>)
      ins(%s : memref<4x128xf32>) outs(%y : memref<?x4x128x16xbf16>)
      maps [affine_map<(t, h, e, l) -> (h, e)>,
            affine_map<(t, h, e, l) -> (l floordiv 16, h, e, l mod 16)>] {
    ^bb0(%r: tensor<128xf32>):
      %a = tensor.extract_slice %r[0] [64] [1] : tensor<128xf32> to tensor<64xf32>
      %b = tensor.extract_slice %r[64] [64] [1] : tensor<128xf32> to tensor<64xf32>
      %n = arith.negf %b : tensor<64xf32>
      %u = tensor.insert_slice %n into %r[0] [64] [1] : tensor<64xf32> into tensor<128xf32>
      %v = tensor.insert_slice %a into %u[64] [64] [1] : tensor<64xf32> into tensor<128xf32>
      kernel.yield %v : tensor<128xf32>
    }
  }
  kernel.return
}
)";

TEST(GpuRows, SharesHeadsAmongWarps) {
  GpuKernel kernel(headsText);
  auto x = toBf16(randomValues(2 * 512, 3));
  std::vector<int32_t> slots = {21, 7};
  for (Mode mode : modes(true)) {
    DeviceMemory memory;
    auto *y = memory.allocate<uint16_t>(2 * 4 * 128 * 16, "y");
    kernel.run(memory, {memory.copyOf(x, "x"), memory.copyOf(slots, "slots"), y}, {2, 1, 2, 2, 1},
               2, mode);
    for (size_t t = 0; t < 2; ++t)
      for (size_t h = 0; h < 4; ++h) {
        float highest = -INFINITY;
        for (size_t e = 0; e < 128; ++e)
          highest = std::max(highest, bf16ToF32(x[t * 512 + h * 128 + e]));
        for (size_t e = 0; e < 128; ++e) {
          float source = bf16ToF32(x[t * 512 + h * 128 + (e + 64) % 128]) - highest;
          auto slot = static_cast<size_t>(slots[t]);
          ASSERT_EQ(y[((slot / 16 * 4 + h) * 128 + e) * 16 + slot % 16],
                    f32ToBf16(e < 64 ? -source : source))
              << t << " " << h << " " << e;
        }
      }
  }
}

constexpr const char *gatherText = R"(
kernel.func @k(%table: memref<3x5x8x64xbf16> {kernel.access = #kernel.access<read>},
               %ids: memref<?xi32> {kernel.access = #kernel.access<read>},
               %y: memref<?x192xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)>
    attributes {launch = #kernel.launch<threads = 32, shared = 0>} {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      lookup(%ids : memref<?xi32>)
      ins(%table : memref<3x5x8x64xbf16>) outs(%y : memref<?x192xf32>)
      maps [affine_map<(t, h, e, l) -> (e floordiv 64, l floordiv 8, l mod 8, e mod 64)>,
            affine_map<(t, h, e, l) -> (t, e)>] attributes {swizzled = array<i64: 0>} {
    ^bb0(%r: tensor<192xf32>):
      kernel.yield %r : tensor<192xf32>
    }
  }
  kernel.return
}
)";

TEST(GpuRows, GathersFromAPackedTable) {
  GpuKernel kernel(gatherText);
  EXPECT_NE(kernel.ptx.find("ld.global.nc.v4"), std::string::npos);
  auto table = toBf16(randomValues(40 * 192, 4));
  std::vector<int32_t> ids = {39, 0, 13};
  DeviceMemory memory;
  auto *y = memory.allocate<float>(3 * 192, "y");
  kernel.run(memory,
             {memory.copyOf(packForGpu(table, 40, 192), "table"), memory.copyOf(ids, "ids"), y},
             {3, 1, 3, 3, 1}, 3, modes(false)[0]);
  for (size_t t = 0; t < 3; ++t)
    for (size_t e = 0; e < 192; ++e)
      ASSERT_EQ(y[t * 192 + e], bf16ToF32(table[static_cast<size_t>(ids[t]) * 192 + e]));
}

std::string topkText(int64_t v, int64_t k, int64_t threads) {
  std::ostringstream text;
  text
      << "kernel.func @k(%x: memref<?x" << v << "xf32> {kernel.access = #kernel.access<read>}, "
      << "%v: memref<?x" << k << "xf32> {kernel.access = #kernel.access<write>}, %i: memref<?x" << k
      << "xi32> {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (R)> "
      << "attributes {launch = #kernel.launch<threads = " << threads
      << ", shared = 256>} {\n kernel.grid %j {\n kernel.topk block %j ins(%x : memref<?x" << v
      << "xf32>) outs(%v, %i : memref<?x" << k << "xf32>, memref<?x" << k << "xi32>) k " << k
      << "\n }\n kernel.return\n}\n";
  return text.str();
}

TEST(GpuTopK, FindsTheLargestAndBreaksTiesByIndex) {
  for (auto [v, k, threads] : {std::array<int64_t, 3>{512, 4, 128}, {37, 37, 64}, {1000, 1, 32}}) {
    GpuKernel kernel(topkText(v, k, threads));
    auto x = randomValues(static_cast<size_t>(2 * v), 6);
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = std::round(x[i] * 20) / 20; // ties
    x[3] = x[7] = NAN;
    x[5] = INFINITY;
    x[6] = -INFINITY;
    x[static_cast<size_t>(v) + 1] = -0.0f;
    for (Mode mode : modes(false)) {
      DeviceMemory memory;
      auto *values = memory.allocate<float>(static_cast<size_t>(2 * k), "values");
      auto *ids = memory.allocate<int32_t>(static_cast<size_t>(2 * k), "ids");
      kernel.run(memory, {memory.copyOf(x, "x"), values, ids}, {9, 1, 9, 9, 2}, 3, mode);
      for (int64_t r = 0; r < 2; ++r) {
        std::vector<int32_t> order(static_cast<size_t>(v));
        std::iota(order.begin(), order.end(), 0);
        const float *row = x.data() + r * v;
        std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
          if (std::isnan(row[a]) != std::isnan(row[b]))
            return std::isnan(row[b]);
          bool tie = std::isnan(row[a]) || row[a] == row[b];
          return tie ? a < b : row[a] > row[b];
        });
        for (int64_t i = 0; i < k; ++i) {
          auto at = static_cast<size_t>(r * k + i),
               index = static_cast<size_t>(order[static_cast<size_t>(i)]);
          ASSERT_EQ(ids[at], order[static_cast<size_t>(i)]) << r << " " << i;
          ASSERT_TRUE(values[at] == row[index] ||
                      (std::isnan(values[at]) && std::isnan(row[index])));
        }
      }
    }
  }
}

} // namespace
} // namespace gemma::test
