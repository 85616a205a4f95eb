// exp, tanh and GeLU of kernels against long double, in units of the last place.
#include "HostKernelHarness.h"

#include <cmath>

namespace gemma::codegen::test {
namespace {

/// A kernel of rows of 8 that gives %s, which `body` makes of %r.
std::string kernelOf(const std::string &body, const std::string &type) {
  std::string row = "memref<?x8x" + type + ">", map = "affine_map<(t, h, e) -> (t, e)>";
  return "kernel.func @k(%x: " + row + " {kernel.access = #kernel.access<read>}, %y: " + row +
         " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (1)> {\n"
         "kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> ins(%x : " +
         row + ") outs(%y : " + row + ") maps [" + map + ", " + map + "] {\n^bb0(%r: tensor<8x" +
         type + ">):\n" + body + "kernel.yield %s : tensor<8x" + type + ">\n}\nkernel.return\n}\n";
}

std::string kernelText(const std::string &function, const std::string &type) {
  return kernelOf("%s = math." + function + " %r : tensor<8x" + type + ">\n", type);
}

double ulp(const std::string &type, double value) {
  int exponent;
  std::frexp(value, &exponent);
  return type == "f64" ? std::ldexp(1.0, std::max(exponent - 53, -1074))
                       : std::ldexp(1.0, std::max(exponent - 24, -149));
}

void check(const std::string &function, const std::string &type, double lowest, double highest,
           double limit, long double (*reference)(long double)) {
  SCOPED_TRACE(function + " " + type);
  const int64_t count = 80000;
  Buffer x = Buffer::random(type, count, 21);
  for (int64_t i = 0; i < count / 2; ++i) // half over the range, half near zero at all scales
    x.set(i, lowest + (highest - lowest) * (x.get(i) + 1) / 2);
  for (int64_t i = count / 2; i < count; ++i)
    x.set(i, std::ldexp(x.get(i), -int(i % 40)));
  const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e-30, -1e-30, 800.0};
  for (int i = 0; i < 8; ++i)
    x.set(i, special[i]);
  forEachIsa(kernelText(function, type), [&](HostModule &module) {
    Buffer y(type, count, NAN);
    module.run("k", {count / 8, 1, count / 8, 1, 1}, {&x, &y}, 1);
    EXPECT_TRUE(std::isnan(y.get(0)));
    double worst = 0, at = 0;
    for (int64_t i = 1; i < count; ++i) {
      long double want = reference(x.get(i));
      if (std::isinf(double(want)) || (type == "f32" && std::isinf(float(want)))) {
        EXPECT_EQ(y.get(i), INFINITY) << x.get(i);
        continue;
      }
      double error = std::abs(y.get(i) - want) / ulp(type, double(want));
      if (!(error <= worst))
        worst = error, at = x.get(i);
    }
    EXPECT_LE(worst, limit) << "at " << at;
    EXPECT_EQ(std::signbit(y.get(4)), std::signbit(double(reference(-0.0L))));
    ::testing::Test::RecordProperty(function + "_" + type + "_" + module.isa(),
                                    std::to_string(worst));
  });
}

long double expReference(long double x) { return std::exp(x); }
long double tanhReference(long double x) { return std::tanh(x); }

TEST(HostMathTest, Exp) {
  check("exp", "f64", -746, 709.7, 1.5, expReference);
  check("exp", "f32", -104, 88.7, 1.5, expReference);
}

TEST(HostMathTest, Tanh) {
  check("tanh", "f64", -25, 25, 2.5, tanhReference);
  check("tanh", "f32", -12, 12, 2.5, tanhReference);
}

/// As the passes write it for gelu_mul: 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).
std::string geluText(const std::string &type) {
  std::string row = " : tensor<8x" + type + ">\n", body;
  auto constant = [&](const std::string &name, const std::string &value) {
    body += name + " = arith.constant dense<" + value + ">" + row;
  };
  auto apply = [&](const std::string &name, const std::string &op) {
    body += name + " = " + op + row;
  };
  constant("%cubic", "0.044715");
  constant("%root", "0.79788456080286535588");
  constant("%half", "0.5");
  constant("%one", "1.0");
  apply("%square", "arith.mulf %r, %r");
  apply("%cube", "arith.mulf %square, %r");
  apply("%part", "arith.mulf %cube, %cubic");
  apply("%sum", "arith.addf %r, %part");
  apply("%inner", "arith.mulf %sum, %root");
  apply("%tanh", "math.tanh %inner");
  apply("%above", "arith.addf %one, %tanh");
  apply("%halved", "arith.mulf %r, %half");
  apply("%s", "arith.mulf %halved, %above");
  return kernelOf(body, type);
}

/// 1 + tanh cancels below zero, so the bound is relative to |x|, in u = 2^-24 (f32) or 2^-53: tanh
/// is 2.5 u off, its argument's 4 roundings move it by 4 · 0.45 u (z / cosh²z is below 0.45), the
/// sum rounds by 1 u; of all this x / 2, and 1 u · |x| for the product: below 4 u · |x|.
TEST(HostMathTest, Gelu) {
  for (const std::string type : {"f64", "f32"}) {
    SCOPED_TRACE(type);
    const int64_t count = 80000;
    Buffer x = Buffer::random(type, count, 22);
    for (int64_t i = 0; i < count; ++i) // half over the range, half near zero at all scales
      x.set(i, i < count / 2 ? 12 * x.get(i) : std::ldexp(x.get(i), -int(i % 40)));
    forEachIsa(geluText(type), [&](HostModule &module) {
      Buffer y(type, count, NAN);
      module.run("k", {count / 8, 1, count / 8, 1, 1}, {&x, &y}, 1);
      double worst = 0, at = 0;
      for (int64_t i = 0; i < count; ++i) {
        auto value = static_cast<long double>(x.get(i));
        long double inner = 0.79788456080286535588L * (value + 0.044715L * value * value * value);
        long double want = 0.5L * value * (1 + std::tanh(inner));
        double unit = std::ldexp(std::fabs(x.get(i)), type == "f64" ? -53 : -24);
        double error = unit > 0 ? double(std::fabs(y.get(i) - want)) / unit : std::fabs(y.get(i));
        if (!(error <= worst))
          worst = error, at = x.get(i);
      }
      EXPECT_LE(worst, 4) << "at " << at;
      EXPECT_GT(worst, 0.1);
      ::testing::Test::RecordProperty("gelu_" + type + "_" + module.isa(), std::to_string(worst));
    });
  }
}

} // namespace
} // namespace gemma::codegen::test
