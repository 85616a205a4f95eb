// exp and tanh of kernels against long double, in units of the last place.
#include "HostKernelHarness.h"

#include <cmath>

namespace gemma::codegen::test {
namespace {

std::string kernelText(const std::string &function, const std::string &type) {
  std::string row = "memref<?x8x" + type + ">", map = "affine_map<(t, h, e) -> (t, e)>";
  return "kernel.func @k(%x: " + row + " {kernel.access = #kernel.access<read>}, %y: " + row +
         " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (1)> {\n"
         "kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> ins(%x : " +
         row + ") outs(%y : " + row + ") maps [" + map + ", " + map + "] {\n^bb0(%r: tensor<8x" +
         type + ">):\n%s = math." + function + " %r : tensor<8x" + type +
         ">\nkernel.yield %s : tensor<8x" + type + ">\n}\nkernel.return\n}\n";
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

} // namespace
} // namespace gemma::codegen::test
