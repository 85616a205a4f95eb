// Contractions whose work is cut into runs of steps, on the emulated device against sums in double.
#include "test/unit/gpu/GpuKernelHarness.h"

#include <cmath>
#include <sstream>

namespace gemma::test {
namespace {

struct Case {
  int64_t n, k;                        ///< columns of out, depth
  int64_t rows, tokens, kTile, stages; ///< tile
  int64_t segments, threads;
  bool pair = false, f32Out = false;
  int64_t raster = 1;
};

std::string kernelText(const Case &c) {
  int64_t groups = (c.n + 7) / 8 * (c.pair ? 2 : 1), kBlocks = (c.k + 63) / 64;
  std::ostringstream act, weight, out, partials, tickets, text;
  act << "memref<?x" << c.k << "xbf16>";
  weight << "memref<" << kBlocks << "x" << groups << "x8x64xbf16>";
  out << "memref<?x" << c.n << (c.f32Out ? "xf32>" : "xbf16>");
  partials << "memref<" << 2 * c.segments << "x" << c.rows * c.tokens << "xf32>";
  tickets << "memref<" << c.segments << "xi32>";
  text << "kernel.func @k(%x: " << act.str()
       << " {kernel.access = #kernel.access<read>}, %w: " << weight.str()
       << " {kernel.access = #kernel.access<read>}, %y: " << out.str()
       << " {kernel.access = #kernel.access<write>}, %p: " << partials.str()
       << " {kernel.access = #kernel.access<readwrite>}, %t: " << tickets.str()
       << " {kernel.access = #kernel.access<readwrite>}) grid affine_map<()[T, B, Q, S, R] -> ("
       << c.segments << ")> attributes {launch = #kernel.launch<threads = " << c.threads
       << ", shared = 166912>} {\n kernel.grid %j {\n kernel.contract block %j act(%x : "
       << act.str() << ") weight(%w : " << weight.str() << ") out(%y : " << out.str()
       << ") partials(%p : " << partials.str() << ") tickets(%t : " << tickets.str()
       << ") extent <T> panels 1 row_tile 1" << (c.pair ? " pair" : "")
       << " attributes {gpu_tile = #kernel.mma<rows = " << c.rows << ", tokens = " << c.tokens
       << ", k = " << c.kTile << ", stages = " << c.stages << ", segments = " << c.segments
       << ", raster = " << c.raster << ">} {\n";
  if (c.pair)
    text << "^bb0(%g: f32, %u: f32):\n %a = math.tanh %g : f32\n %r = arith.mulf %a, %u : f32\n";
  else
    text << "^bb0(%r: f32):\n";
  text << " kernel.yield %r : f32\n }\n }\n kernel.return\n}\n";
  return text.str();
}

float bf16(float value) { return bf16ToF32(f32ToBf16(value)); }

class Stream {
public:
  explicit Stream(const Case &c)
      : c(c), kernel(kernelText(c)), weightRows((c.n + 7) / 8 * 8 * (c.pair ? 2 : 1)),
        w(toBf16(randomValues(static_cast<size_t>(weightRows * c.k), 1))) {
    for (int64_t n = c.n; n < (c.n + 7) / 8 * 8; ++n)
      for (int64_t k = 0; k < c.k; ++k)
        for (bool up : {false, true})
          if (!up || c.pair)
            w[static_cast<size_t>(rowOf(n, up) * c.k + k)] = 0;
  }

  /// Two launches one after the other, in every mode, give the same bits, which are right.
  void check(const std::vector<int64_t> &tokenCounts, bool allModes) {
    for (int64_t tokens : tokenCounts) {
      auto x = randomValues(static_cast<size_t>(tokens * c.k), 2);
      std::vector<std::byte> first;
      for (Mode mode : modes(allModes)) {
        SCOPED_TRACE(testing::Message() << tokens << " tokens, order " << int(mode.order));
        run(x, tokens, mode, first);
        if (testing::Test::HasFailure())
          return;
      }
    }
  }

private:
  int64_t rowOf(int64_t n, bool up) const { return c.pair ? n / 8 * 16 + n % 8 + (up ? 8 : 0) : n; }

  void run(const std::vector<float> &x, int64_t tokens, Mode mode, std::vector<std::byte> &first) {
    DeviceMemory memory;
    auto count = static_cast<size_t>(tokens * c.n), bytes = count * (c.f32Out ? 4 : 2);
    auto *deviceX = memory.copyOf(toBf16(x), "x");
    auto *deviceW = memory.copyOf(packForGpu(w, weightRows, c.k), "w");
    auto *partials =
        memory.allocate<float>(static_cast<size_t>(2 * c.segments * c.rows * c.tokens), "partials");
    auto *tickets =
        memory.copyOf(std::vector<int32_t>(static_cast<size_t>(c.segments), 0), "tickets", false);
    for (int launch = 0; launch < 2; ++launch) {
      // Outputs of an earlier launch must not pass for those of this one.
      auto *y = memory.allocate<std::byte>(bytes, "y" + std::to_string(launch));
      kernel.run(memory, {deviceX, deviceW, y, partials, tickets}, {tokens, 1, tokens, tokens, 1},
                 static_cast<uint32_t>(c.segments + 1), mode);
      if (testing::Test::HasFailure())
        return;
      for (int64_t i = 0; i < c.segments; ++i)
        ASSERT_EQ(tickets[i], 0) << "ticket " << i;
      if (first.empty()) {
        first.assign(y, y + bytes);
        compare(x, tokens, y);
      }
      ASSERT_TRUE(std::equal(first.begin(), first.end(), y)) << "launch " << launch;
    }
  }

  void compare(const std::vector<float> &x, int64_t tokens, const std::byte *y) {
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
        double got = c.f32Out ? double(reinterpret_cast<const float *>(y)[at])
                              : double(bf16ToF32(reinterpret_cast<const uint16_t *>(y)[at]));
        double bound = (c.f32Out ? 0 : std::fabs(want) * 0x1p-8) + magnitude * 0x1p-20;
        if (c.pair)
          bound += magnitude * 0x1p-20 * (1 + std::fabs(sum[1]));
        ASSERT_LE(std::fabs(got - want), bound) << "token " << t << " column " << n;
      }
  }

  Case c;
  GpuKernel kernel;
  int64_t weightRows;
  std::vector<uint16_t> w;
};

void check(const Case &c, const std::vector<int64_t> &tokenCounts, bool allModes = false) {
  SCOPED_TRACE(testing::Message() << "N " << c.n << " K " << c.k << " tile " << c.rows << "x"
                                  << c.tokens << "x" << c.kTile << " segments " << c.segments);
  Stream(c).check(tokenCounts, allModes);
}

// 3 tiles of 5 steps in 4 runs: 4, 4, 4 and 3 steps, so that tiles have 2 or 3 parts.
TEST(GpuStreamContract, IsRightInEveryMode) { check({192, 320, 64, 8, 64, 3, 4, 128}, {7}, true); }

TEST(GpuStreamContract, CutsTilesIntoAnyNumberOfParts) {
  check({64, 512, 64, 8, 64, 3, 8, 128}, {1, 8}); // a tile, a step a run
  check({64, 256, 64, 8, 64, 4, 9, 128}, {3});    // more runs than steps
  check({256, 128, 64, 8, 64, 2, 3, 128}, {8});   // runs with a whole tile between two parts
  check({128, 192, 64, 8, 64, 4, 2, 128}, {2});   // every tile whole: no parts at all
  check({320, 64, 64, 8, 64, 3, 2, 128}, {4});    // tiles of one step
}

TEST(GpuStreamContract, TakesSeveralTilesOfTokens) {
  check({128, 192, 64, 8, 64, 3, 5, 128}, {8, 9, 16, 17, 24});
  check({192, 256, 128, 32, 64, 3, 7, 256}, {33});
  check({128, 192, 64, 8, 64, 3, 5, 128, false, false, 2}, {8, 17, 24}); // in bands of two
}

TEST(GpuStreamContract, TakesOddShapesAndEpilogues) {
  check({100, 224, 64, 16, 64, 3, 3, 128}, {17});           // rows and a k-block not full
  check({96, 256, 64, 8, 64, 3, 5, 128, true}, {5});        // pairs
  check({98, 320, 64, 8, 128, 2, 3, 64, false, true}, {6}); // f32, steps of two k-blocks
}

} // namespace
} // namespace gemma::test
