// kernel.quantize and kernel.contract of quantised weights against plain loops, for all tails.
//
// Codes are IEEE arithmetic and must be the plain loops' to the bit. Of an output three things are
// asked: from the same codes it differs from the exact sum by the roundings of f32 alone; from the
// activations themselves by what rounding them to codes may cost; and it is the same bits whatever
// rows and panels it is computed with.
#include "HostKernelHarness.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace gemma::codegen::test {
namespace {

constexpr int64_t group = 32;

struct Types {
  int bits;    ///< of a weight
  int actBits; ///< of an activation's code
  double most() const { return actBits == 8 ? 127 : 32767; }
  int zero() const { return bits == 8 ? 128 : 8; }
  std::string code() const { return "i" + std::to_string(actBits); }
};

struct Shape {
  int64_t columns, depth;
  bool pair;
  int64_t panels = 2;
  int rowTile = 8;
  int64_t groups() const { return (depth + group - 1) / group; }
  int64_t packedPanels() const { return (columns + 15) / 16 * (pair ? 2 : 1); }
};

/// A quantised matrix: value [n, k] = w[n, k] · scale[n, k / 32].
struct Weight {
  std::vector<int> w;
  std::vector<double> scale;
  Buffer packed{"i8", 0}, packedScales{"f16", 0};
};

/// What sums may come to: random codes, or all weights and activations as large as they can be, of
/// these signs.
struct Signs {
  int weight = 0, act = 0;
};

Weight makeWeight(const Shape &s, Types types, Signs signs) {
  std::mt19937 engine(unsigned(types.bits));
  int64_t rows = s.columns * (s.pair ? 2 : 1);
  int low = types.bits == 8 ? -127 : -8, high = types.bits == 8 ? 127 : 7;
  Weight weight;
  for (int64_t i = 0; i < rows * s.depth; ++i) // the ends of the range are frequent
    weight.w.push_back(signs.weight   ? (signs.weight < 0 ? low : high)
                       : engine() % 4 ? std::uniform_int_distribution(low, high)(engine)
                                      : (engine() % 2 ? low : high));
  for (int64_t i = 0; i < rows * s.groups(); ++i)
    weight.scale.push_back((1024 + int(engine() % 1024)) * 0x1p-16);
  int64_t quadBytes = types.bits == 8 ? 8 : 4, bytes = quadBytes * 64;
  std::vector<int> codes(size_t(s.packedPanels() * s.groups() * group * 16), types.zero());
  weight.packedScales = Buffer("f16", s.packedPanels() * s.groups() * 16);
  int64_t parts = s.pair ? 2 : 1;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t part = row / s.columns, n = row % s.columns, panel = n / 16 * parts + part;
    for (int64_t g = 0; g < s.groups(); ++g)
      weight.packedScales.set((panel * s.groups() + g) * 16 + n % 16,
                              weight.scale[size_t(row * s.groups() + g)]);
    for (int64_t k = 0; k < s.depth; ++k)
      codes[size_t(((panel * s.groups() + k / group) * group + k % group) * 16 + n % 16)] =
          weight.w[size_t(row * s.depth + k)] + types.zero();
  }
  weight.packed = Buffer("i8", s.packedPanels() * s.groups() * bytes);
  for (int64_t pg = 0; pg < s.packedPanels() * s.groups(); ++pg)
    for (int64_t j = 0; j < quadBytes; ++j)
      for (int64_t n = 0; n < 16; ++n)
        for (int64_t q = 0; q < 4; ++q) {
          auto code = [&](int64_t quad) {
            return codes[size_t((pg * group + quad * 4 + q) * 16 + n)];
          };
          int byte = types.bits == 8 ? code(j) : code(j) | code(j + 4) << 4;
          weight.packed.set((pg * quadBytes + j) * 64 + n * 4 + q, int8_t(byte));
        }
  return weight;
}

/// How a contraction gets its codes: from a launch before it, from its own kernel, or both ways,
/// which must agree. Compiling takes most of the time.
enum class Way { Launch, Hoisted, Both };

/// Kernels @q (quantise, a row a block), @k (contract of its codes), @h (both, hoisted).
std::string kernelText(const Shape &s, Types types, int64_t mostRows, Way way = Way::Both) {
  auto text = [](auto value) { return std::to_string(value); };
  std::string depth = text(s.groups() * group), groups = text(s.groups());
  auto types3 = [&](const std::string &rows) {
    return "memref<" + rows + "x" + depth + "x" + types.code() + ">, memref<" + rows + "x" +
           groups + "xf32>, memref<" + rows + "x" + groups + "xi32>";
  };
  std::string x = "memref<?x" + text(s.depth) + "xf32>",
              out = "memref<?x" + text(s.columns) + "xf32>";
  std::string codes = "memref<?x" + depth + "x" + types.code() + ">",
              scales = "memref<?x" + groups + "xf32>", starts = "memref<?x" + groups + "xi32>";
  std::string weight = "memref<" + text(s.packedPanels()) + "x" + groups + "x" +
                       (types.bits == 8 ? "8" : "4") + "x16x4xi8>";
  std::string weightScales = "memref<" + text(s.packedPanels()) + "x" + groups + "x16xf16>";
  const std::string read = " {kernel.access = #kernel.access<read>}",
                    write = " {kernel.access = #kernel.access<write>}";
  const std::string sizes = " grid affine_map<()[T, B, Q, S, R] -> (";
  std::string zero = text(types.zero());
  auto contract = [&](const std::string &rows) {
    std::string act = "memref<" + rows + "x" + depth + "x" + types.code() + ">";
    return "kernel.contract block %j act(%c : " + act + ") weight(%w : " + weight +
           ") out(%out : " + out + ") quantised(%ws, %s, %n : " + weightScales + ", memref<" +
           rows + "x" + groups + "xf32>, memref<" + rows + "x" + groups +
           "xi32>) extent <T> panels " + text(s.panels) + " row_tile " + text(s.rowTile) +
           (s.pair ? " pair {\n^bb0(%g: f32, %u: f32):\n"
                     " %r = arith.addf %g, %u : f32\n"
                   : " {\n^bb0(%r: f32):\n") +
           " kernel.yield %r : f32\n}\n";
  };
  int64_t grid = (s.packedPanels() + s.panels - 1) / s.panels;
  std::string weights =
      "%w: " + weight + read + ", %ws: " + weightScales + read + ", %out: " + out + write;
  std::string rows = text(mostRows);
  std::string result = "kernel.func @q(%x: " + x + read + ", %c: " + codes + write +
                       ", %s: " + scales + write + ", %n: " + starts + write + ")" + sizes +
                       "T)> {\nkernel.grid %j {\nkernel.quantize block %j ins(%x : " + x +
                       ") outs(%c, %s, %n : " + types3("?") + ") extent <T> zero " + zero +
                       "\n}\nkernel.return\n}\n";
  if (way != Way::Hoisted)
    result += "kernel.func @k(%c: " + codes + read + ", %s: " + scales + read + ", %n: " + starts +
              read + ", " + weights + ")" + sizes + text(grid) + ")> {\nkernel.grid %j {\n" +
              contract("?") + "}\nkernel.return\n}\n";
  if (way != Way::Launch)
    result += "kernel.func @h(%x: " + x + read + ", " + weights + ")" + sizes + text(grid) +
              ")> {\n%c = kernel.scratch : memref<" + rows + "x" + depth + "x" + types.code() +
              ">\n%s = kernel.scratch : memref<" + rows + "x" + groups +
              "xf32>\n%n = kernel.scratch : memref<" + rows + "x" + groups +
              "xi32>\nkernel.quantize ins(%x : " + x + ") outs(%c, %s, %n : " + types3(rows) +
              ") extent <T> zero " + zero + "\nkernel.grid %j {\n" + contract(rows) +
              "}\nkernel.return\n}\n";
  return result;
}

/// Where code `k` of a row lies.
int64_t placeOf(int64_t k, int actBits) {
  constexpr int64_t order[] = {0, 2, 1, 3};
  return actBits == 8 ? k : k / 4 * 4 + order[k % 4];
}

void check(const std::vector<int64_t> &rowCounts, const Shape &s, Types types, Way way = Way::Both,
           Signs signs = {}) {
  SCOPED_TRACE(testing::Message() << s.columns << "x" << s.depth << " int" << types.bits << " int"
                                  << types.actBits << (s.pair ? " pair" : ""));
  int64_t most = *std::max_element(rowCounts.begin(), rowCounts.end());
  Weight weight = makeWeight(s, types, signs);
  Buffer x = Buffer::random("f32", most * s.depth, 3);
  for (int64_t t = 0; t < most; ++t)
    for (int64_t k = 0; k < s.depth; ++k) // groups of other magnitudes, some zero
      x.set(t * s.depth + k, (t + k / group) % 5 == 4
                                 ? 0.0
                                 : x.get(t * s.depth + k) * std::exp2(double((t + k / group) % 7)));
  if (signs.act)
    x = Buffer("f32", most * s.depth, signs.act);

  // The codes.
  int64_t groups = s.groups(), width = groups * group, rows = s.columns * (s.pair ? 2 : 1);
  std::vector<int> codes(size_t(most * width), 0);
  std::vector<float> scales(size_t(most * groups), 0);
  for (int64_t t = 0; t < most; ++t)
    for (int64_t g = 0; g < groups; ++g) {
      float largest = 0;
      int64_t end = std::min(s.depth, (g + 1) * group);
      for (int64_t k = g * group; k < end; ++k)
        largest = std::max(largest, std::abs(float(x.get(t * s.depth + k))));
      if (largest == 0)
        continue;
      scales[size_t(t * groups + g)] = largest / float(types.most());
      float inverse = float(types.most()) / largest;
      for (int64_t k = g * group; k < end; ++k)
        codes[size_t(t * width + k)] = int(std::nearbyint(float(x.get(t * s.depth + k)) * inverse));
    }
  // Outputs, and how far they may be: from the codes' sums, and from those of the activations.
  std::vector<double> wantOfCodes(size_t(most * s.columns)),
      ofCodes = wantOfCodes, wantOfX = wantOfCodes, ofX = wantOfCodes;
  for (int64_t t = 0; t < most; ++t)
    for (int64_t row = 0; row < rows; ++row) {
      size_t at = size_t(t * s.columns + row % s.columns);
      for (int64_t g = 0; g < groups; ++g) {
        double scale = weight.scale[size_t(row * groups + g)];
        double actScale = scales[size_t(t * groups + g)];
        int64_t sum = 0, magnitude = 0;
        for (int64_t k = g * group; k < std::min(s.depth, (g + 1) * group); ++k) {
          int w = weight.w[size_t(row * s.depth + k)];
          sum += int64_t(w) * codes[size_t(t * width + k)];
          magnitude += std::abs(w);
          wantOfX[at] += w * scale * x.get(t * s.depth + k);
        }
        wantOfCodes[at] += double(sum) * scale * actScale;
        // The group's float, the product of scales, the sums that follow.
        ofCodes[at] += double(groups + 4) * 0x1p-24 * std::abs(double(sum)) * scale * actScale;
        ofX[at] += 0.5 * actScale * (1 + types.most() * 0x1p-21) * double(magnitude) * scale;
      }
      ofX[at] += ofCodes[at];
    }

  int64_t grid = (s.packedPanels() + s.panels - 1) / s.panels;
  forEachIsa(kernelText(s, types, most, way), [&](HostModule &module) {
    Buffer c(types.code(), most * width, -7.0), sc("f32", most * groups, -7.0),
        st("i32", most * groups, -7.0);
    module.run("q", {most, 1, most, most, 1}, {&x, &c, &sc, &st}, most, 3);
    for (int64_t t = 0; t < most; ++t)
      for (int64_t g = 0; g < groups; ++g) {
        ASSERT_EQ(sc.get(t * groups + g), scales[size_t(t * groups + g)]);
        int64_t sum = 0;
        for (int64_t k = g * group; k < (g + 1) * group; ++k) {
          ASSERT_EQ(c.get(t * width + placeOf(k, types.actBits)), codes[size_t(t * width + k)])
              << k;
          sum += codes[size_t(t * width + k)];
        }
        ASSERT_EQ(st.get(t * groups + g), -types.zero() * double(sum));
      }
    auto contract = [&](bool hoisted, int64_t count, Buffer &values, std::array<Buffer *, 3> coded,
                        Buffer &out, int64_t range) {
      GemmaSizes sizes = {count, 1, count, count, 1};
      if (hoisted)
        return module.run("h", sizes, {&values, &weight.packed, &weight.packedScales, &out}, grid,
                          range);
      module.run("k", sizes,
                 {coded[0], coded[1], coded[2], &weight.packed, &weight.packedScales, &out}, grid,
                 range);
    };
    // Every row alone: what it must be in any company, to the bit.
    std::vector<double> alone;
    for (int64_t t = 0; t < most; ++t) {
      Buffer row("f32", s.depth), one("f32", s.columns, NAN);
      Buffer rowCodes(types.code(), width), rowScales("f32", groups), rowStarts("i32", groups);
      for (int64_t k = 0; k < s.depth; ++k)
        row.set(k, x.get(t * s.depth + k));
      module.run("q", {1, 1, 1, 1, 1}, {&row, &rowCodes, &rowScales, &rowStarts}, 1);
      contract(way != Way::Launch, 1, row, {&rowCodes, &rowScales, &rowStarts}, one, grid);
      for (int64_t n = 0; n < s.columns; ++n)
        alone.push_back(one.get(n));
    }
    for (int64_t count : rowCounts) {
      SCOPED_TRACE(testing::Message() << count << " rows");
      Buffer out("f32", count * s.columns + 64, -7.0), cut = out;
      contract(way == Way::Hoisted, count, x, {&c, &sc, &st}, out, grid);
      contract(way != Way::Launch, count, x, {&c, &sc, &st}, cut, 1);
      EXPECT_TRUE(out == cut) << "the result depends on how the grid is cut";
      for (int64_t i = 0; i < out.size(); ++i) {
        ASSERT_EQ(out.get(i), i < count * s.columns ? alone[size_t(i)] : -7.0) << "element " << i;
        if (i < count * s.columns) {
          ASSERT_LE(std::abs(out.get(i) - wantOfCodes[size_t(i)]), ofCodes[size_t(i)]) << i;
          ASSERT_LE(std::abs(out.get(i) - wantOfX[size_t(i)]), ofX[size_t(i)]) << i;
        }
      }
    }
  });
}

Way alternate(int64_t i) { return i % 2 ? Way::Hoisted : Way::Launch; }

class QuantizedContractTest : public testing::TestWithParam<std::tuple<int, int>> {
protected:
  Types types() const { return {std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(QuantizedContractTest, Tails) {
  const std::vector<int64_t> sizes = {1, 7, 15, 16, 17, 37};
  for (auto [columns, depth] : {std::pair(1, 17), {7, 16}, {15, 1}, {16, 7}, {17, 15}, {37, 37}})
    for (bool pair : {false, true})
      check(sizes, {columns, depth, pair}, types(), alternate(columns + pair));
}

TEST_P(QuantizedContractTest, DeepSums) {
  check({1, 6}, {48, 1056, false}, types());
  check({1, 6}, {48, 1056, true}, types());
}

TEST_P(QuantizedContractTest, PanelsThatDoNotDivide) {
  check({1, 5, 9}, {112, 33, false, 4, 4}, types());
  check({1, 5, 9}, {112, 33, true, 8, 1}, types());
}

/// Few rows, and many: part of a tile, of a block, of several; blocks of k.
TEST_P(QuantizedContractTest, Blocks) {
  const std::vector<int64_t> rows = {1, 3, 4, 5, 6, 8, 12, 13, 37};
  check(rows, {37, 530, true, 2, 12}, types());
  check(rows, {112, 1056, false, 4, 12}, types());
  // Scales of 5 groups, and of 16 and 9: whole registers and a rest in every instruction set.
  check({5, 13}, {16, 160, false, 1, 12}, types(), Way::Launch);
  check({5, 13}, {16, 800, false, 1, 12}, types(), Way::Launch);
}

/// The largest sums of a group, where 16 bits are full and what wraps must come back.
TEST_P(QuantizedContractTest, LargestSums) {
  for (int weight : {-1, 1})
    for (int act : {-1, 1})
      check({1, 13}, {16, 64, false, 1, 12}, types(), Way::Launch, {weight, act});
}

/// Blocks as programs have them: many tiles, and 16 panels.
TEST_P(QuantizedContractTest, WholeBlocks) {
  check({5, 29, 131, 132, 133, 140}, {272, 64, false, 16, 132}, types(), Way::Launch);
}

/// All sizes of all three dimensions; every day in the types that are used most.
TEST_P(QuantizedContractTest, EveryCombination) {
  if ((types().bits != 4 || types().actBits != 8) && !gemma::test::wantsLongTests())
    GTEST_SKIP() << "a minute; GEMMA_LONG_TESTS=1 runs it";
  const std::vector<int64_t> sizes = {1, 7, 15, 16, 17, 37};
  for (int64_t columns : sizes)
    for (int64_t depth : sizes)
      check(sizes, {columns, depth, false, columns > 16 ? 2 : 1, 12}, types(), alternate(columns));
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedContractTest,
                         testing::Combine(testing::Values(8, 4), testing::Values(8, 16)),
                         [](const auto &info) {
                           return "Int" + std::to_string(std::get<0>(info.param)) + "By" +
                                  std::to_string(std::get<1>(info.param));
                         });

/// What is not finite must not be lost in codes.
TEST(Quantize, KeepsWhatIsNotFinite) {
  Shape s{16, 64, false};
  forEachIsa(kernelText(s, {8, 8}, 1), [&](HostModule &module) {
    for (double special : {double(NAN), double(INFINITY)}) {
      Buffer x("f32", 64, 1.0), c("i8", 64), scales("f32", 2), starts("i32", 2);
      x.set(40, special);
      module.run("q", {1, 1, 1, 1, 1}, {&x, &c, &scales, &starts}, 1);
      EXPECT_EQ(scales.get(0), double(1.0f / 127.0f));
      EXPECT_FALSE(std::isfinite(scales.get(1)));
    }
  });
}

} // namespace
} // namespace gemma::codegen::test
