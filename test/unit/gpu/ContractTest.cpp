// Contractions on the emulated device against sums in double.
#include "test/unit/gpu/GpuKernelHarness.h"

#include <cmath>
#include <sstream>

namespace gemma::test {
namespace {

struct Case {
  int64_t n, k;                        ///< columns of out, depth
  int64_t rows, tokens, kTile, stages; ///< tile
  int64_t threads;
  bool pair = false, f32Out = false, f32Act = false;
  int64_t raster = 1;
};

std::string kernelText(const Case &c) {
  int64_t groups = (c.n + 7) / 8 * (c.pair ? 2 : 1), kBlocks = (c.k + 63) / 64;
  std::ostringstream act, weight, out, text;
  act << "memref<?x" << c.k << (c.f32Act ? "xf32>" : "xbf16>");
  weight << "memref<" << kBlocks << "x" << groups << "x8x64xbf16>";
  out << "memref<?x" << c.n << (c.f32Out ? "xf32>" : "xbf16>");
  int64_t rowTiles = (groups * 8 + c.rows - 1) / c.rows;
  text << "kernel.func @k(%x: " << act.str()
       << " {kernel.access = #kernel.access<read>}, %w: " << weight.str()
       << " {kernel.access = #kernel.access<read>}, %y: " << out.str()
       << " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> ("
       << rowTiles << " * ((T + " << c.tokens - 1 << ") floordiv " << c.tokens
       << "))> attributes {launch = #kernel.launch<threads = " << c.threads
       << ", shared = 166912>} {\n kernel.grid %j {\n kernel.contract block %j act(%x : "
       << act.str() << ") weight(%w : " << weight.str() << ") out(%y : " << out.str()
       << ") extent <T> panels 1 row_tile 1" << (c.pair ? " pair" : "")
       << " attributes {gpu_tile = #kernel.mma<rows = " << c.rows << ", tokens = " << c.tokens
       << ", k = " << c.kTile << ", stages = " << c.stages << ", raster = " << c.raster << ">} {\n";
  if (c.pair)
    text << "^bb0(%g: f32, %u: f32):\n %t = math.tanh %g : f32\n %r = arith.mulf %t, %u : f32\n";
  else
    text << "^bb0(%r: f32):\n";
  text << " kernel.yield %r : f32\n }\n }\n kernel.return\n}\n";
  return text.str();
}

float bf16(float value) { return bf16ToF32(f32ToBf16(value)); }

void check(const Case &c, const std::vector<int64_t> &tokenCounts, bool allModes = false) {
  SCOPED_TRACE(testing::Message() << "N " << c.n << " K " << c.k << " tile " << c.rows << "x"
                                  << c.tokens << "x" << c.kTile << " stages " << c.stages);
  GpuKernel kernel(kernelText(c));
  int64_t padded = (c.n + 7) / 8 * 8, weightRows = c.pair ? 2 * padded : padded;
  // Row n of gate and up, or of the weight; rows beyond N are zero.
  auto w = toBf16(randomValues(static_cast<size_t>(weightRows * c.k), 1));
  auto rowOf = [&](int64_t n, bool up) { return c.pair ? n / 8 * 16 + n % 8 + (up ? 8 : 0) : n; };
  for (int64_t n = c.n; n < padded; ++n)
    for (int64_t k = 0; k < c.k; ++k)
      for (bool up : {false, true})
        if (!up || c.pair)
          w[static_cast<size_t>(rowOf(n, up) * c.k + k)] = 0;
  for (int64_t tokens : tokenCounts)
    for (Mode mode : modes(allModes)) {
      SCOPED_TRACE(testing::Message() << tokens << " tokens, order " << int(mode.order));
      DeviceMemory memory;
      auto x = randomValues(static_cast<size_t>(tokens * c.k), 2);
      void *deviceX = c.f32Act ? static_cast<void *>(memory.copyOf(x, "x"))
                               : static_cast<void *>(memory.copyOf(toBf16(x), "x"));
      auto *deviceW = memory.copyOf(packForGpu(w, weightRows, c.k), "w");
      auto count = static_cast<size_t>(tokens * c.n);
      void *y = c.f32Out ? static_cast<void *>(memory.allocate<float>(count, "y"))
                         : static_cast<void *>(memory.allocate<uint16_t>(count, "y"));
      int64_t blocks = (weightRows + c.rows - 1) / c.rows * ((tokens + c.tokens - 1) / c.tokens);
      // Two blocks too many must do nothing.
      kernel.run(memory, {deviceX, deviceW, y}, {tokens, 1, tokens, tokens, 1},
                 static_cast<uint32_t>(blocks + 2), mode);
      if (testing::Test::HasFailure())
        return;
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t n = 0; n < c.n; ++n) {
          double sum[2] = {0, 0}, magnitude = 0;
          for (int half = 0; half < (c.pair ? 2 : 1); ++half)
            for (int64_t k = 0; k < c.k; ++k) {
              double product = double(bf16(x[static_cast<size_t>(t * c.k + k)])) *
                               double(bf16ToF32(w[static_cast<size_t>(rowOf(n, half) * c.k + k)]));
              sum[half] += product;
              magnitude += std::fabs(product);
            }
          double want = c.pair ? std::tanh(sum[0]) * sum[1] : sum[0];
          auto at = static_cast<size_t>(t * c.n + n);
          double got = c.f32Out ? double(static_cast<float *>(y)[at])
                                : double(bf16ToF32(static_cast<uint16_t *>(y)[at]));
          double bound = (c.f32Out ? 0 : std::fabs(want) * 0x1p-8) + magnitude * 0x1p-20;
          if (c.pair)
            bound += magnitude * 0x1p-20 * (1 + std::fabs(sum[1]));
          ASSERT_LE(std::fabs(got - want), bound) << "token " << t << " column " << n;
        }
    }
}

TEST(GpuContract, IsRightInEveryMode) { check({128, 192, 64, 32, 64, 4, 128}, {35}, true); }

TEST(GpuContract, TakesAnyNumberOfTokens) {
  check({64, 128, 64, 8, 64, 3, 128}, {1, 3, 4, 5, 8, 9, 16, 17});
  check({128, 64, 128, 64, 64, 2, 256}, {1, 63, 64, 65});
}

TEST(GpuContract, TakesOddDepthsAndWidths) {
  check({100, 96, 64, 16, 64, 3, 128}, {1, 17}); // rows and a k-block that are not full
  check({98, 63, 64, 8, 64, 2, 64}, {9});        // rows of activations that are not aligned
  check({41, 72, 32, 24, 64, 2, 64}, {25});      // rows of the output that are not aligned
}

TEST(GpuContract, AppliesTheEpilogueToPairs) {
  check({96, 128, 64, 16, 64, 3, 128, true}, {1, 17});
  check({20, 63, 32, 8, 64, 2, 64, true}, {5});
}

TEST(GpuContract, StoresAndReadsF32) {
  check({256, 192, 128, 16, 128, 3, 128, false, true}, {1, 20});
  check({64, 64, 64, 8, 64, 2, 128, false, true, true}, {7});
  check({64, 70, 64, 8, 64, 2, 128, false, false, true}, {7});
}

TEST(GpuContract, SharesLargeTilesAmongWarps) {
  check({256, 128, 128, 128, 64, 3, 256}, {129});
  check({128, 320, 128, 40, 64, 4, 128}, {41}); // an odd number of n-tiles a warp
  check({128, 128, 128, 112, 64, 3, 256}, {113});
  check({128, 128, 128, 80, 64, 3, 256}, {81});
}

// Three tiles of tokens in bands of two: of four tiles of rows the last one is not full.
TEST(GpuContract, TakesTilesInTheOrderOfTheRaster) {
  check({248, 64, 64, 8, 64, 2, 128, false, false, false, 2}, {7, 16, 23});
  check({64, 64, 64, 8, 64, 2, 64, false, false, false, 8}, {8, 60, 70});
}

// A row's result depends neither on the tile nor on the other tokens.
TEST(GpuContract, AddsInTheSameOrderWhateverTheTile) {
  auto x = toBf16(randomValues(40 * 256, 3)), w = toBf16(randomValues(64 * 256, 4));
  std::vector<std::vector<uint16_t>> results;
  for (const Case &c : {Case{64, 256, 64, 8, 64, 4, 128}, Case{64, 256, 64, 32, 64, 3, 64},
                        Case{64, 256, 32, 40, 128, 2, 32}}) {
    GpuKernel kernel(kernelText(c));
    DeviceMemory memory;
    auto *y = memory.allocate<uint16_t>(40 * 64, "y");
    int64_t blocks = 64 / c.rows * ((40 + c.tokens - 1) / c.tokens);
    kernel.run(memory, {memory.copyOf(x, "x"), memory.copyOf(packForGpu(w, 64, 256), "w"), y},
               {40, 1, 40, 40, 1}, static_cast<uint32_t>(blocks), modes(false)[0]);
    results.emplace_back(y, y + 40 * 64);
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

} // namespace
} // namespace gemma::test
