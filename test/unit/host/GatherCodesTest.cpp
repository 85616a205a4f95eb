// kernel.rows that gathers codes: rows of token tables of int8 and int4, by token, which are exact
// but for one rounding.
#include "HostKernelHarness.h"
#include "KernelTemplate.h"

#include "runtime/support/BFloat16.h"

#include <cstring>
#include <iterator>

namespace gemma::codegen::test {
namespace {

// A row of a table of int8: codes and scales of its panel, as dialect/program/Layout.h has them.
const char *const gather8Text = R"(
kernel.func @k(%w: memref<3x$Gx8x16x4xi8> {kernel.access = #kernel.access<read>},
               %ws: memref<3x$Gx16xf16> {kernel.access = #kernel.access<read>},
               %ids: memref<?xi32> {kernel.access = #kernel.access<read>},
               %y: memref<?x$Nxf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, 1)> extent <T>
      lookup(%ids : memref<?xi32>)
      ins(%w, %ws : memref<3x$Gx8x16x4xi8>, memref<3x$Gx16xf16>) outs(%y : memref<?x$Nxf32>)
      maps [affine_map<(t, h, e, i) -> (i floordiv 16, e floordiv 32, (e mod 32) floordiv 4, i mod 16, e mod 4)>,
            affine_map<(t, h, e, i) -> (i floordiv 16, e floordiv 32, i mod 16)>,
            affine_map<(t, h, e, i) -> (t, e)>] {
    ^bb0(%b: tensor<$Nxi8>, %s: tensor<$Nxf32>):
      %u = arith.extui %b : tensor<$Nxi8> to tensor<$Nxi32>
      %zero = arith.constant dense<128> : tensor<$Nxi32>
      %c = arith.subi %u, %zero : tensor<$Nxi32>
      %r = arith.sitofp %c : tensor<$Nxi32> to tensor<$Nxf32>
      %p = arith.mulf %r, %s : tensor<$Nxf32>
      %m = arith.constant dense<$M> : tensor<$Nxf32>
      %o = arith.mulf %p, %m : tensor<$Nxf32>
      kernel.yield %o : tensor<$Nxf32>
    }
  }
  kernel.return
}
)";

// Of int4, h counts groups: each has 16 bytes a row, whose halves are two rows of 16 columns.
const char *const gather4Text = R"(
kernel.func @k(%w: memref<3x$Gx4x16x4xi8> {kernel.access = #kernel.access<read>},
               %ws: memref<3x$Gx16xf16> {kernel.access = #kernel.access<read>},
               %ids: memref<?xi32> {kernel.access = #kernel.access<read>},
               %y: memref<?x$Nxf32> {kernel.access = #kernel.access<write>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, $G)> extent <T>
      lookup(%ids : memref<?xi32>)
      ins(%w, %ws : memref<3x$Gx4x16x4xi8>, memref<3x$Gx16xf16>)
      outs(%y, %y : memref<?x$Nxf32>, memref<?x$Nxf32>)
      maps [affine_map<(t, h, e, i) -> (i floordiv 16, h, e floordiv 4, i mod 16, e mod 4)>,
            affine_map<(t, h, e, i) -> (i floordiv 16, h, i mod 16)>,
            affine_map<(t, h, e, i) -> (t, h * 32 + e)>, affine_map<(t, h, e, i) -> (t, h * 32 + e + 16)>] {
    ^bb0(%b: tensor<16xi8>, %s: f32):
      %u = arith.extui %b : tensor<16xi8> to tensor<16xi32>
      %mask = arith.constant dense<15> : tensor<16xi32>
      %four = arith.constant dense<4> : tensor<16xi32>
      %zero = arith.constant dense<8> : tensor<16xi32>
      %m = arith.constant dense<$M> : tensor<16xf32>
      %sr = tensor.splat %s : tensor<16xf32>
      %ul = arith.andi %u, %mask : tensor<16xi32>
      %cl = arith.subi %ul, %zero : tensor<16xi32>
      %rl = arith.sitofp %cl : tensor<16xi32> to tensor<16xf32>
      %pl = arith.mulf %rl, %sr : tensor<16xf32>
      %ol = arith.mulf %pl, %m : tensor<16xf32>
      %us = arith.shrui %u, %four : tensor<16xi32>
      %uh = arith.andi %us, %mask : tensor<16xi32>
      %ch = arith.subi %uh, %zero : tensor<16xi32>
      %rh = arith.sitofp %ch : tensor<16xi32> to tensor<16xf32>
      %ph = arith.mulf %rh, %sr : tensor<16xf32>
      %oh = arith.mulf %ph, %m : tensor<16xf32>
      kernel.yield %ol, %oh : tensor<16xf32>, tensor<16xf32>
    }
  }
  kernel.return
}
)";

/// Code · scale is exact in f32, so a result is the product with `mul` rounded once.
void checkGather(int bits, int64_t n) {
  SCOPED_TRACE(testing::Message() << "int" << bits << ", " << n << " columns");
  constexpr int64_t panels = 3;
  constexpr float mul = 61.96773353931867F; // √3840
  const int64_t groups = (n + 31) / 32, quads = bits == 8 ? 8 : 4;
  std::mt19937 engine(static_cast<unsigned>(n));
  Buffer codes("i8", panels * groups * quads * 64), scales("f16", panels * groups * 16);
  for (int64_t i = 0; i < codes.size(); ++i)
    codes.set(i, int8_t(engine()));
  // All kinds of scales: of both signs, subnormal ones, the ends of the range.
  std::vector<uint16_t> scaleBits(size_t(scales.size()));
  for (size_t i = 0; i < scaleBits.size(); ++i) {
    constexpr uint16_t special[] = {0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x7bff, 0xfbff};
    scaleBits[i] = uint16_t(engine());
    if (i % 3 == 0 || (scaleBits[i] & 0x7c00) == 0x7c00)
      scaleBits[i] = special[engine() % std::size(special)];
  }
  std::memcpy(scales.data(), scaleBits.data(), scaleBits.size() * sizeof scaleBits[0]);

  std::vector<int> ids = {0, 47, 16, 31, 5, 32, 5};
  auto tokens = int64_t(ids.size());
  std::vector<double> want;
  for (int id : ids)
    for (int64_t e = 0; e < n; ++e) {
      int64_t place = id / 16 * groups + e / 32, quad = e % 32 / 4;
      auto byte =
          uint8_t(int8_t(codes.get(((place * quads + quad % quads) * 16 + id % 16) * 4 + e % 4)));
      int code = bits == 8 ? byte - 128 : (quad < 4 ? byte & 15 : byte >> 4) - 8;
      double scale = double(f16ToF32(scaleBits[size_t(place * 16 + id % 16)]));
      want.push_back(double(float(code * scale * double(mul))));
    }
  Buffer idList = Buffer::integers(ids);
  std::string text =
      fill(bits == 8 ? gather8Text : gather4Text,
           {{'N', std::to_string(n)}, {'G', std::to_string(groups)}, {'M', "61.96773353931867"}});
  forEachIsa(
      text,
      [&](HostModule &module) {
        for (int64_t range : {1, 1000000}) {
          Buffer y("f32", tokens * n + 32, -7);
          module.run("k", {tokens, 1, tokens, tokens, 1}, {&codes, &scales, &idList, &y}, tokens,
                     range);
          for (int64_t i = 0; i < y.size(); ++i)
            ASSERT_EQ(y.get(i), i < tokens * n ? want[size_t(i)] : -7)
                << "token " << i / n << ", column " << i % n;
        }
      },
      /*quantised=*/true);
}

TEST(GatherCodesTest, Int8Rows) {
  for (int64_t n : {1, 7, 19, 32, 33, 70, 160})
    checkGather(8, n);
}

TEST(GatherCodesTest, Int4Rows) {
  for (int64_t n : {32, 96, 160})
    checkGather(4, n);
}

} // namespace
} // namespace gemma::codegen::test
