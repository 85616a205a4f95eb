// kernel.topk against sorting, with ties, infinities and NaN.
#include "HostKernelHarness.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gemma::codegen::test {
namespace {

std::string kernelText(int columns, int k, const std::string &type) {
  std::string x = "memref<?x" + std::to_string(columns) + "x" + type + ">";
  std::string values = "memref<?x" + std::to_string(k) + "x" + type + ">";
  std::string ids = "memref<?x" + std::to_string(k) + "xi32>";
  std::string write = " {kernel.access = #kernel.access<write>}";
  return "kernel.func @k(%x: " + x + " {kernel.access = #kernel.access<read>}, %v: " + values +
         write + ", %i: " + ids + write +
         ") grid affine_map<()[T, B, Q, S, R] -> (R)> {\nkernel.grid %j {\n"
         "kernel.topk block %j ins(%x : " +
         x + ") outs(%v, %i : " + values + ", " + ids + ") k " + std::to_string(k) +
         "\n}\nkernel.return\n}\n";
}

TEST(TopKTest, AgainstSorting) {
  const int rows = 4;
  for (auto [columns, k] : {std::pair(1, 1), {7, 7}, {37, 5}, {300, 40}})
    for (std::string type : {"f64", "f32"}) {
      SCOPED_TRACE(testing::Message() << columns << " " << k << " " << type);
      Buffer x = Buffer::random(type, rows * columns, 31);
      for (int i = 0; i < rows * columns; ++i) // many ties; in row 3 no more than four numbers
        x.set(i, i >= 3 * columns && i % columns > 3 ? NAN
                 : i % 11 == 0                       ? NAN
                 : i % 13 == 0                       ? -INFINITY
                                                     : std::round(8 * x.get(i)));
      forEachIsa(kernelText(columns, k, type), [&](HostModule &module) {
        Buffer values(type, rows * k), ids("i32", rows * k, -1);
        module.run("k", {rows, rows, 1, 1, rows}, {&x, &values, &ids}, rows);
        for (int row = 0; row < rows; ++row) {
          std::vector<int> order(columns);
          std::iota(order.begin(), order.end(), 0);
          auto at = [&](int i) { return x.get(row * columns + i); };
          std::sort(order.begin(), order.end(), [&](int a, int b) {
            if (std::isnan(at(a)) || std::isnan(at(b)))
              return std::isnan(at(a)) != std::isnan(at(b)) ? std::isnan(at(b)) : a < b;
            return at(a) != at(b) ? at(a) > at(b) : a < b;
          });
          for (int i = 0; i < k; ++i) {
            EXPECT_EQ(ids.get(row * k + i), order[i]) << "row " << row << " place " << i;
            double value = values.get(row * k + i);
            EXPECT_TRUE(value == at(order[i]) || (std::isnan(value) && std::isnan(at(order[i]))));
          }
        }
      });
    }
}

} // namespace
} // namespace gemma::codegen::test
