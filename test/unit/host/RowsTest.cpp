// kernel.rows against plain loops: norms, rotations by table, scatters and gathers.
#include "HostKernelHarness.h"

#include <cmath>

namespace gemma::codegen::test {
namespace {

/// Replaces T by the type's name, N by a number.
/// `type` for $M, the type of memory, and for $T, that of the computation, f32 of bf16; `n` for $N.
std::string fill(std::string text, const std::string &type, int64_t n) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$' && text[i + 1] == 'M')
      result += type, ++i;
    else if (text[i] == '$' && text[i + 1] == 'T')
      result += type == "bf16" ? "f32" : type, ++i;
    else if (text[i] == '$' && text[i + 1] == 'N')
      result += std::to_string(n), ++i;
    else
      result += text[i];
  }
  return result;
}

const char *const rmsnormText = R"(
kernel.func @k(%x: memref<?x$Nx$T> {kernel.access = #kernel.access<read>},
               %w: memref<$Nx$T> {kernel.access = #kernel.access<read>},
               %y: memref<?x$Nx$T> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T ceildiv 4)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j * 4, j * 4 + 4, 0, 1)> extent <T>
      ins(%x, %w : memref<?x$Nx$T>, memref<$Nx$T>) outs(%y : memref<?x$Nx$T>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%xr: tensor<$Nx$T>, %wr: tensor<$Nx$T>):
      %sq = arith.mulf %xr, %xr : tensor<$Nx$T>
      %ss = kernel.reduce add %sq : tensor<$Nx$T>
      %n = arith.constant $N.0 : $T
      %eps = arith.constant 1.0e-6 : $T
      %mean = arith.divf %ss, %n : $T
      %shifted = arith.addf %mean, %eps : $T
      %inverse = math.rsqrt %shifted : $T
      %row = tensor.splat %inverse : tensor<$Nx$T>
      %xn = arith.mulf %xr, %row : tensor<$Nx$T>
      %yr = arith.mulf %xn, %wr : tensor<$Nx$T>
      kernel.yield %yr : tensor<$Nx$T>
    }
  }
  kernel.return
}
)";

TEST(RowsTest, RmsNorm) {
  for (std::string type : {"f64", "f32"})
    for (int64_t n : {1, 3, 16, 37, 96, 200}) {
      SCOPED_TRACE(type + " " + std::to_string(n));
      const int64_t rows = 7;
      Buffer x = Buffer::random(type, rows * n, 3), w = Buffer::random(type, n, 4);
      std::vector<double> want;
      for (int64_t t = 0; t < rows; ++t) {
        double sum = 0;
        for (int64_t e = 0; e < n; ++e)
          sum += x.get(t * n + e) * x.get(t * n + e);
        for (int64_t e = 0; e < n; ++e)
          want.push_back(x.get(t * n + e) / std::sqrt(sum / n + 1e-6) * w.get(e));
      }
      forEachIsa(fill(rmsnormText, type, n), [&](HostModule &module) {
        Buffer y(type, rows * n, NAN), cut = y;
        module.run("k", {rows, 1, rows, rows, 1}, {&x, &w, &y}, 2);
        module.run("k", {rows, 1, rows, rows, 1}, {&x, &w, &cut}, 2, 1);
        EXPECT_LE(relativeError(y, want), tolerance(type));
        EXPECT_TRUE(y == cut);
      });
    }
}

// K in rotated halves, appended to a transposed page: slices, two tables by position, a scatter.
const char *const ropeText = R"(
kernel.func @k(%x: memref<?x2x$Nx$M> {kernel.access = #kernel.access<read>},
               %cos: memref<64x4x$M> {kernel.access = #kernel.access<read>},
               %sin: memref<64x4x$M> {kernel.access = #kernel.access<read>},
               %positions: memref<?xi32> {kernel.access = #kernel.access<read>},
               %pages: memref<?xi32> {kernel.access = #kernel.access<read>},
               %k: memref<?x2x$Nx16x$M> {kernel.access = #kernel.access<readwrite>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 2)> extent <T>
    lookup(%positions, %pages : memref<?xi32>, memref<?xi32>)
    ins(%x, %cos, %sin : memref<?x2x$Nx$M>, memref<64x4x$M>, memref<64x4x$M>)
    outs(%k : memref<?x2x$Nx16x$M>)
    maps [affine_map<(t, h, e, p, g) -> (t, h, e)>, affine_map<(t, h, e, p, g) -> (p, e)>,
          affine_map<(t, h, e, p, g) -> (p, e)>, affine_map<(t, h, e, p, g) -> (g, h, e, p mod 16)>] {
  ^bb0(%xr: tensor<$Nx$T>, %c: tensor<4x$T>, %s: tensor<4x$T>):
    %a = tensor.extract_slice %xr[0] [4] [1] : tensor<$Nx$T> to tensor<4x$T>
    %b = tensor.extract_slice %xr[10] [4] [1] : tensor<$Nx$T> to tensor<4x$T>
    %ac = arith.mulf %a, %c : tensor<4x$T>
    %bs = arith.mulf %b, %s : tensor<4x$T>
    %as = arith.mulf %a, %s : tensor<4x$T>
    %bc = arith.mulf %b, %c : tensor<4x$T>
    %ra = arith.subf %ac, %bs : tensor<4x$T>
    %rb = arith.addf %as, %bc : tensor<4x$T>
    %r0 = tensor.insert_slice %ra into %xr[0] [4] [1] : tensor<4x$T> into tensor<$Nx$T>
    %r1 = tensor.insert_slice %rb into %r0[10] [4] [1] : tensor<4x$T> into tensor<$Nx$T>
    kernel.yield %r1 : tensor<$Nx$T>
  }
  kernel.return
}
)";

TEST(RowsTest, RopeIntoTransposedPages) {
  for (std::string type : {"f64", "f32", "bf16"}) {
    const int64_t n = 20, tokens = 5;
    std::vector<int> positions = {3, 15, 16, 40, 63}, pages = {2, 0, 1, 1, 2};
    Buffer x = Buffer::random(type, tokens * 2 * n, 5), cos = Buffer::random(type, 64 * 4, 6),
           sin = Buffer::random(type, 64 * 4, 7);
    Buffer before = Buffer::random(type, 3 * 2 * n * 16, 8);
    std::vector<double> want;
    for (int64_t i = 0; i < before.size(); ++i)
      want.push_back(before.get(i));
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t e = 0; e < n; ++e) {
          auto at = [&](int64_t i) { return x.get((t * 2 + h) * n + i); };
          int64_t lane = e < 4 ? e : e - 10;
          double value = at(e), c = 0, s = 0;
          if (e < 4 || (e >= 10 && e < 14)) {
            c = cos.get(positions[t] * 4 + lane);
            s = sin.get(positions[t] * 4 + lane);
            value = e < 4 ? at(lane) * c - at(lane + 10) * s : at(lane) * s + at(lane + 10) * c;
          }
          want[((pages[t] * 2 + h) * n + e) * 16 + positions[t] % 16] = value;
        }
    Buffer positionList = Buffer::integers(positions), pageList = Buffer::integers(pages);
    forEachIsa(fill(ropeText, type, n), [&](HostModule &module) {
      Buffer k = before;
      module.run("k", {tokens, 1, tokens, 64, 1}, {&x, &cos, &sin, &positionList, &pageList, &k},
                 1);
      EXPECT_LE(relativeError(k, want), tolerance(type));
    });
  }
}

// An embedding row out of a table packed for the head, in 16-bit pairs: a gather that widens.
const char *const gatherText = R"(
kernel.func @k(%w: memref<3x10x16x2xbf16> {kernel.access = #kernel.access<read>},
               %ids: memref<?xi32> {kernel.access = #kernel.access<read>},
               %y: memref<?x19xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      lookup(%ids : memref<?xi32>)
      ins(%w : memref<3x10x16x2xbf16>) outs(%y : memref<?x19xf32>)
      maps [affine_map<(t, h, e, i) -> (i floordiv 16, e floordiv 2, i mod 16, e mod 2)>,
            affine_map<(t, h, e, i) -> (t, e)>] {
    ^bb0(%r: tensor<19xf32>):
      %c = arith.constant dense<3.0> : tensor<19xf32>
      %s = arith.mulf %r, %c : tensor<19xf32>
      kernel.yield %s : tensor<19xf32>
    }
  }
  kernel.return
}
)";

TEST(RowsTest, PackedGather) {
  Buffer w = Buffer::random("bf16", 3 * 10 * 16 * 2, 9);
  std::vector<int> ids = {0, 47, 16, 31};
  std::vector<double> want;
  for (int id : ids)
    for (int e = 0; e < 19; ++e)
      want.push_back(3 * w.get(((id / 16 * 10 + e / 2) * 16 + id % 16) * 2 + e % 2));
  Buffer idList = Buffer::integers(ids);
  forEachIsa(gatherText, [&](HostModule &module) {
    Buffer y("f32", 4 * 19, NAN);
    module.run("k", {4, 1, 4, 4, 1}, {&w, &idList, &y}, 4);
    EXPECT_EQ(relativeError(y, want), 0.0);
  });
}

// bf16 to f32 and back rounds to nearest even, for every kind of number; a strided argument.
const char *const roundText = R"(
kernel.func @k(%x: memref<?x8xf32, strided<[20, 1]>> {kernel.access = #kernel.access<read>},
               %y: memref<?x8xbf16> {kernel.access = #kernel.access<write>},
               %z: memref<?x8xf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (1)> {
  %s = kernel.scratch : memref<4x8xbf16>
  kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T>
    ins(%x : memref<?x8xf32, strided<[20, 1]>>) outs(%y, %s : memref<?x8xbf16>, memref<4x8xbf16>)
    maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
  ^bb0(%r: tensor<8xf32>):
    kernel.yield %r, %r : tensor<8xf32>, tensor<8xf32>
  }
  kernel.grid %j {
    kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> once
      ins(%s : memref<4x8xbf16>) outs(%z : memref<?x8xf32>)
      maps [affine_map<(t, h, e) -> (t, e)>, affine_map<(t, h, e) -> (t, e)>] {
    ^bb0(%r: tensor<8xf32>):
      kernel.yield %r : tensor<8xf32>
    }
  }
  kernel.return
}
)";

TEST(RowsTest, Bf16RoundTrip) {
  std::vector<double> numbers = {1.0,        1.00390625, 1.01171875, -1.00390625, 1e38, 3.4e38,
                                 1e-40,      NAN,        INFINITY,   -INFINITY,   0.0,  -0.0,
                                 1.00390637, 65535.0,    -3.14159,   0.1};
  Buffer x("f32", 40);
  for (int i = 0; i < 16; ++i)
    x.set(i / 8 * 20 + i % 8, numbers[i]);
  forEachIsa(roundText, [&](HostModule &module) {
    Buffer y("bf16", 16), z("f32", 16);
    module.run("k", {2, 1, 2, 2, 1}, {&x, &y, &z}, 1);
    for (int i = 0; i < 16; ++i) {
      Buffer want("bf16", 1, x.get(i / 8 * 20 + i % 8));
      SCOPED_TRACE(numbers[i]);
      EXPECT_EQ(std::isnan(y.get(i)), std::isnan(numbers[i]));
      if (!std::isnan(numbers[i])) {
        EXPECT_EQ(y.get(i), want.get(0));
        EXPECT_EQ(z.get(i), want.get(0));
      }
    }
  });
}

} // namespace
} // namespace gemma::codegen::test
