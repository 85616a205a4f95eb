// Exact conversion of tensor elements.
#include "runtime/checkpoint/Widen.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

using namespace gemma;

/// The bytes of `values`, one byte off any alignment.
template <typename T> struct Unaligned {
  explicit Unaligned(std::vector<T> values) : storage(values.size() * sizeof(T) + 1) {
    std::memcpy(storage.data() + 1, values.data(), values.size() * sizeof(T));
  }
  std::span<const std::byte> bytes() const { return std::span(storage).subspan(1); }
  std::vector<std::byte> storage;
};

TEST(WidenTest, EveryType) {
  EXPECT_EQ(widenAll(ScalarType::F64, Unaligned<double>({0.1, -3}).bytes()),
            (std::vector<double>{0.1, -3}));
  EXPECT_EQ(widenAll(ScalarType::F32, Unaligned<float>({0.1f, 1e-45f}).bytes()),
            (std::vector<double>{double(0.1f), double(1e-45f)}));
  EXPECT_EQ(widenAll(ScalarType::BF16, Unaligned<uint16_t>({0x3f80, 0xc040, 0x0001}).bytes()),
            (std::vector<double>{1, -3, std::ldexp(1.0, -133)}));
  EXPECT_EQ(widenAll(ScalarType::F16,
                     Unaligned<uint16_t>({0x3c00, 0xc200, 0x0001, 0x7bff, 0x8000}).bytes()),
            (std::vector<double>{1, -3, std::ldexp(1.0, -24), 65504, -0.0}));
}

// All 65,536 values of each 16-bit type against the definition of the format.
TEST(WidenTest, EverySixteenBitPattern) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = uint16_t(i);
  auto expectFormat = [&](ScalarType type, int exponentBits) {
    const int mantissaBits = 15 - exponentBits, bias = (1 << (exponentBits - 1)) - 1;
    std::vector<double> got = widenAll(type, std::as_bytes(std::span(all)));
    for (unsigned bits = 0; bits < 65536; ++bits) {
      unsigned mantissa = bits & ((1u << mantissaBits) - 1);
      int exponent = int(bits >> mantissaBits) & ((1 << exponentBits) - 1);
      double sign = bits & 0x8000 ? -1 : 1;
      if (exponent == (1 << exponentBits) - 1) {
        ASSERT_TRUE(mantissa ? std::isnan(got[bits])
                             : got[bits] == sign * std::numeric_limits<double>::infinity());
        continue;
      }
      double whole = exponent ? mantissa + double(1u << mantissaBits) : double(mantissa);
      double wanted = sign * std::ldexp(whole, std::max(exponent, 1) - bias - mantissaBits);
      ASSERT_EQ(got[bits], wanted) << bits;
      ASSERT_EQ(std::signbit(got[bits]), std::signbit(wanted)) << bits;
    }
  };
  expectFormat(ScalarType::BF16, 8);
  expectFormat(ScalarType::F16, 5);
}

TEST(WidenTest, Ranges) {
  Unaligned<uint16_t> stored({0x3f80, 0x4000, 0x4040, 0x4080}); // 1 2 3 4
  std::vector<float> out(2);
  widen(ScalarType::BF16, stored.bytes(), 1, std::span<float>(out));
  EXPECT_EQ(out, (std::vector<float>{2, 3}));
  widen(ScalarType::BF16, stored.bytes(), 4, std::span<float>()); // empty, at the end
  EXPECT_FALSE(widensExactlyToFloat(ScalarType::F64));
  EXPECT_TRUE(widensExactlyToFloat(ScalarType::F16));
}
