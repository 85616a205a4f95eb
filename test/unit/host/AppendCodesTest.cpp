// kernel.rows that appends codes: int8 codes of keys and values, and their scales, to the caches.
//
// The formula is the lowering's own (RowMath::quantise). What it must give follows from the
// definition: a scale of max |x| / 127, correctly rounded, and a code next to x / scale, where the
// rounding of x · (127 / max |x|) decides between two that are nearly as near.
#include "HostKernelHarness.h"
#include "KernelTemplate.h"

#include "dialect/kernel/Kernel.h"
#include "passes/lower/RowMath.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

namespace gemma::codegen::test {
namespace {

constexpr int64_t page = 16;

struct Caches {
  int64_t heads, dim;
  bool keys = true; ///< else values alone
};

// The body yields placeholders: kernelText() has the formula.
const char *const appendText = R"(
kernel.func @k(%kx: memref<?x$Hx$Dxf32> {kernel.access = #kernel.access<read>},
               %vx: memref<?x$Hx$Dxf32> {kernel.access = #kernel.access<read>},
               %k: memref<?x$Hx$Dx16xi8> {kernel.access = #kernel.access<write>},
               %v: memref<?x$Hx16x$Dxi8> {kernel.access = #kernel.access<write>},
               %ks: memref<?x$Hx16xf32> {kernel.access = #kernel.access<write>},
               %vs: memref<?x$Hx16xf32> {kernel.access = #kernel.access<write>},
               %pages: memref<?xi32> {kernel.access = #kernel.access<read>},
               %positions: memref<?xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> (T)> {
  kernel.grid %j {
    kernel.rows block %j domain affine_map<(j)[T, B, Q, S, R] -> (j, j + 1, 0, $H)> extent <T>
      lookup(%pages, %positions : memref<?xi32>, memref<?xi32>)
      ins(%kx, %vx : memref<?x$Hx$Dxf32>, memref<?x$Hx$Dxf32>)
      outs(%k, %v, %ks, %vs : memref<?x$Hx$Dx16xi8>, memref<?x$Hx16x$Dxi8>, memref<?x$Hx16xf32>, memref<?x$Hx16xf32>)
      maps [affine_map<(t, h, e, g, p) -> (t, h, e)>, affine_map<(t, h, e, g, p) -> (t, h, e)>,
            affine_map<(t, h, e, g, p) -> (g, h, e, p mod 16)>, affine_map<(t, h, e, g, p) -> (g, h, p mod 16, e)>,
            affine_map<(t, h, e, g, p) -> (g, h, p mod 16)>, affine_map<(t, h, e, g, p) -> (g, h, p mod 16)>] {
    ^bb0(%kr: tensor<$Dxf32>, %vr: tensor<$Dxf32>):
      %c = arith.constant dense<0> : tensor<$Dxi8>
      %s = arith.constant dense<0.0> : tensor<1xf32>
      kernel.yield %c, %c, %s, %s : tensor<$Dxi8>, tensor<$Dxi8>, tensor<1xf32>, tensor<1xf32>
    }
  }
  kernel.return
}
)";

// Values alone, in blocks of one head each.
const char *const appendValuesText = R"(
kernel.func @k(%vx: memref<?x$Hx$Dxf32> {kernel.access = #kernel.access<read>},
               %v: memref<?x$Hx16x$Dxi8> {kernel.access = #kernel.access<write>},
               %vs: memref<?x$Hx16xf32> {kernel.access = #kernel.access<write>},
               %pages: memref<?xi32> {kernel.access = #kernel.access<read>},
               %positions: memref<?xi32> {kernel.access = #kernel.access<read>})
    grid affine_map<()[T, B, Q, S, R] -> (T * $H)> {
  kernel.grid %j {
    kernel.rows block %j
      domain affine_map<(j)[T, B, Q, S, R] -> (j floordiv $H, j floordiv $H + 1, j mod $H, j mod $H + 1)> extent <T>
      lookup(%pages, %positions : memref<?xi32>, memref<?xi32>)
      ins(%vx : memref<?x$Hx$Dxf32>)
      outs(%v, %vs : memref<?x$Hx16x$Dxi8>, memref<?x$Hx16xf32>)
      maps [affine_map<(t, h, e, g, p) -> (t, h, e)>,
            affine_map<(t, h, e, g, p) -> (g, h, p mod 16, e)>, affine_map<(t, h, e, g, p) -> (g, h, p mod 16)>] {
    ^bb0(%vr: tensor<$Dxf32>):
      %c = arith.constant dense<0> : tensor<$Dxi8>
      %s = arith.constant dense<0.0> : tensor<1xf32>
      kernel.yield %c, %s : tensor<$Dxi8>, tensor<1xf32>
    }
  }
  kernel.return
}
)";

/// The kernel with the formula that lowering writes for every row.
std::string kernelText(const Caches &c) {
  std::string text = fill(c.keys ? appendText : appendValuesText,
                          {{'H', std::to_string(c.heads)}, {'D', std::to_string(c.dim)}});
  mlir::MLIRContext context;
  context.loadDialect<kernel::KernelDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "cannot parse\n" << text;
    return text;
  }
  module->walk([](kernel::RowsOp rows) {
    mlir::Block &body = rows.getBody().front();
    mlir::Operation *yield = body.getTerminator();
    mlir::OpBuilder builder(yield);
    llvm::SmallVector<mlir::Value> codes, scales;
    for (mlir::Value row : body.getArguments()) {
      auto [code, scale] = passes::RowMath(builder, rows.getLoc()).quantise(row);
      codes.push_back(code);
      scales.push_back(scale);
    }
    llvm::append_range(codes, scales);
    yield->setOperands(codes);
  });
  std::string result;
  llvm::raw_string_ostream(result) << *module;
  return result;
}

/// Tokens with a place each.
struct Append {
  Caches c;
  std::vector<int> positions, pages; ///< of tokens
  int64_t pageCount;
  Buffer kx, vx; ///< what is appended
  Buffer positionList = Buffer::integers(positions), pageList = Buffer::integers(pages);

  int64_t tokens() const { return int64_t(positions.size()); }
  int64_t places() const { return pageCount * c.heads * page; }
  int64_t scaleAt(int64_t t, int64_t h) const {
    return (pages[t] * c.heads + h) * page + positions[t] % page;
  }
  int64_t keyAt(int64_t t, int64_t h, int64_t e) const {
    return ((pages[t] * c.heads + h) * c.dim + e) * page + positions[t] % page;
  }
  int64_t valueAt(int64_t t, int64_t h, int64_t e) const { return scaleAt(t, h) * c.dim + e; }
};

/// The lanes of a cache, full of what no append writes.
struct Lanes {
  Buffer k, v, kScales, vScales;
  explicit Lanes(const Append &a)
      : k("i8", a.places() * a.c.dim, -128), v(k), kScales("f32", a.places(), -7),
        vScales(kScales) {}
  bool operator==(const Lanes &other) const {
    return k == other.k && v == other.v && kScales == other.kScales && vScales == other.vScales;
  }
};

Lanes run(HostModule &module, Append &a, int64_t range) {
  Lanes lanes(a);
  GemmaSizes sizes = {a.tokens(), 1, a.tokens(), 64, 1};
  if (a.c.keys)
    module.run("k", sizes,
               {&a.kx, &a.vx, &lanes.k, &lanes.v, &lanes.kScales, &lanes.vScales, &a.pageList,
                &a.positionList},
               a.tokens(), range);
  else
    module.run("k", sizes, {&a.vx, &lanes.v, &lanes.vScales, &a.pageList, &a.positionList},
               a.tokens() * a.c.heads, range);
  return lanes;
}

/// Codes and scale of row x are as defined.
void expectCodes(const std::vector<double> &x, const std::vector<double> &codes, double scale) {
  double largest = 0;
  for (double value : x)
    largest = std::max(largest, std::abs(value));
  if (largest < 0x1p-100) {
    EXPECT_EQ(scale, 0);
    EXPECT_EQ(codes, std::vector<double>(x.size(), 0));
    return;
  }
  EXPECT_EQ(scale, double(float(largest / 127)));
  for (size_t e = 0; e < x.size(); ++e) {
    // 127 / largest and its product with x lose half an ulp each: 127 · 2^-23 of a code.
    ASSERT_LE(std::abs(codes[e] - x[e] * 127 / largest), 0.5 + 128 * 0x1p-23) << e;
    ASSERT_LE(std::abs(codes[e]), 127) << e;
    ASSERT_LE(std::abs(x[e] - scale * codes[e]), scale / 2 * (1 + 0x1p-15)) << e;
  }
}

/// Calls `body(t, h, codes, scale, x)` for every row of a lane, and asks that there was nothing
/// else written.
template <typename At, typename Body>
void forRows(const Append &a, const Buffer &x, const Buffer &lane, const Buffer &scales, At at,
             Body body) {
  std::vector<bool> written(size_t(lane.size())), scaled(size_t(scales.size()));
  for (int64_t t = 0; t < a.tokens(); ++t)
    for (int64_t h = 0; h < a.c.heads; ++h) {
      SCOPED_TRACE(testing::Message() << "token " << t << ", head " << h);
      std::vector<double> row, codes;
      for (int64_t e = 0; e < a.c.dim; ++e) {
        row.push_back(x.get((t * a.c.heads + h) * a.c.dim + e));
        codes.push_back(lane.get(at(t, h, e)));
        written[size_t(at(t, h, e))] = true;
      }
      scaled[size_t(a.scaleAt(t, h))] = true;
      body(t, h, row, codes, scales.get(a.scaleAt(t, h)));
    }
  for (int64_t i = 0; i < lane.size(); ++i)
    ASSERT_TRUE(written[size_t(i)] || lane.get(i) == -128) << "code " << i;
  for (int64_t i = 0; i < scales.size(); ++i)
    ASSERT_TRUE(scaled[size_t(i)] || scales.get(i) == -7) << "scale " << i;
}

template <typename Body> void forAllRows(const Append &a, const Lanes &lanes, Body body) {
  auto keyAt = [&](int64_t t, int64_t h, int64_t e) { return a.keyAt(t, h, e); };
  auto valueAt = [&](int64_t t, int64_t h, int64_t e) { return a.valueAt(t, h, e); };
  if (a.c.keys) {
    SCOPED_TRACE("keys");
    forRows(a, a.kx, lanes.k, lanes.kScales, keyAt, body);
  }
  SCOPED_TRACE("values");
  forRows(a, a.vx, lanes.v, lanes.vScales, valueAt, body);
}

/// Rows of magnitudes from 2^-40 to 2^40. Of three rows one has elements in the middle between two
/// codes, and one a single large element.
Buffer rowsOf(int64_t rows, int64_t dim, unsigned seed) {
  Buffer x = Buffer::random("f32", rows * dim, seed);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t e = 0; e < dim; ++e) {
      int64_t at = row * dim + e, large = row * 7 % dim;
      double value = x.get(at);
      if (row % 3 == 1)
        value = e == large ? -127 : std::floor(value * 127) + 0.5;
      if (row % 3 == 2 && e == large)
        value = 100;
      x.set(at, std::ldexp(value, int(row * 13 % 81) - 40));
    }
  return x;
}

void check(const Caches &c) {
  SCOPED_TRACE(testing::Message() << c.heads << " heads of " << c.dim
                                  << (c.keys ? "" : ", values alone"));
  // At the ends and in the middle of pages, two in one page; page 3 is nobody's.
  std::vector<int> positions = {3, 15, 16, 40, 63}, pages = {2, 0, 1, 1, 4};
  int64_t rows = int64_t(positions.size()) * c.heads;
  Append a{c, positions, pages, 5, rowsOf(rows, c.dim, 5), rowsOf(rows, c.dim, 6)};
  forEachIsa(
      kernelText(c),
      [&](HostModule &module) {
        Lanes lanes = run(module, a, 1000000);
        forAllRows(a, lanes,
                   [](int64_t, int64_t, const std::vector<double> &x,
                      const std::vector<double> &codes,
                      double scale) { expectCodes(x, codes, scale); });
        EXPECT_TRUE(lanes == run(module, a, 1)) << "the result depends on how the grid is cut";
      },
      /*quantised=*/true);
}

TEST(AppendCodesTest, CodesAndScales) {
  for (Caches c : {Caches{1, 1}, {3, 7}, {1, 20}, {3, 37}, {1, 144}, {3, 256}})
    check(c);
}

TEST(AppendCodesTest, ValuesAlone) {
  for (Caches c : {Caches{1, 37, false}, {3, 1, false}, {3, 20, false}, {1, 512, false}})
    check(c);
}

/// A NaN or an infinity anywhere in a row leaves it no numbers; tiny rows are zeros, and the
/// largest are rows like others. Other heads do not notice.
TEST(AppendCodesTest, WhatHasNoCodes) {
  constexpr int64_t dim = 37, heads = 3;
  constexpr double largest = std::numeric_limits<float>::max();
  struct Kind {
    double first, rest;
  };
  // Behind rows with a NaN at each element.
  const std::vector<Kind> kinds = {
      {INFINITY, 1}, {-INFINITY, 1},        {INFINITY, NAN}, {0, 0},
      {-0.0, -0.0},  {0x1p-101, -0x1p-101}, {0x1p-149, 0},   {0x1.fffffep-101, 0x1p-120},
      {0x1p-100, 0}, {-0x1p-100, 0x1p-101}, {largest, 1},    {-largest, largest}};
  std::vector<int> positions, pages;
  for (int t = 0; t < int(dim) + int(kinds.size()); ++t) {
    positions.push_back(t);
    pages.push_back(t / int(page));
  }
  int64_t tokens = int64_t(positions.size());
  Append a{{heads, dim},
           positions,
           pages,
           (tokens + page - 1) / page,
           Buffer::random("f32", tokens * heads * dim, 7),
           Buffer::random("f32", tokens * heads * dim, 8)};
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t e = 0; e < dim; ++e)
      for (Buffer *x : {&a.kx, &a.vx}) {
        int64_t at = (t * heads + 1) * dim + e;
        if (t >= dim)
          x->set(at, e == t % dim ? kinds[size_t(t - dim)].first : kinds[size_t(t - dim)].rest);
        else if (e == t)
          x->set(at, NAN);
      }
  forEachIsa(
      kernelText(a.c),
      [&](HostModule &module) {
        forAllRows(a, run(module, a, 1000000),
                   [&](int64_t t, int64_t h, const std::vector<double> &x,
                       const std::vector<double> &codes, double scale) {
                     if (h != 1 || t >= dim + 3)
                       return expectCodes(x, codes, scale);
                     for (double code : codes)
                       EXPECT_FALSE(std::isfinite(float(code) * float(scale))) << code;
                   });
      },
      /*quantised=*/true);
}

} // namespace
} // namespace gemma::codegen::test
