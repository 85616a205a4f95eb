// Provenance hashes: what must be equal, what must not, and that code made with them obeys.
#include "test/unit/emu/EmuHarness.h"

#include "runtime/device/emu/Provenance.h"
#include "runtime/support/BFloat16.h"

#include <bit>
#include <cmath>
#include <random>

namespace gemma::emu::test {
namespace {

constexpr uint32_t zero = 0, minusZero = 0x80000000u, inf = 0x7f800000u, minusInf = 0xff800000u;

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }
float number(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t neg(uint32_t x) { return x ^ 0x80000000u; }
uint32_t hash(uint32_t op, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  return provenanceOf(op, a, b, c);
}
uint32_t add(uint32_t a, uint32_t b) { return hash(EmuProvenanceAdd, a, b); }
uint32_t mul(uint32_t a, uint32_t b) { return hash(EmuProvenanceMul, a, b); }
uint32_t fma(uint32_t a, uint32_t b, uint32_t c) { return hash(EmuProvenanceFma, a, b, c); }
uint32_t exp2(uint32_t a) { return hash(EmuProvenanceExp2 | EmuProvenanceApprox, a); }
uint16_t narrow(uint32_t a) { return uint16_t(hash(EmuProvenanceToBf16, a)); }

std::vector<uint32_t> someNumbers(size_t count) {
  std::mt19937 random(3); // NOLINT(bugprone-random-generator-seed): the same numbers each time
  std::normal_distribution<float> normal;
  std::vector<uint32_t> numbers;
  numbers.reserve(count);
  for (size_t i = 0; i < count; ++i)
    numbers.push_back(bits(normal(random)));
  return numbers;
}

TEST(EmuProvenance, TellsOrdersOfAdditionApart) {
  std::vector<uint32_t> x = someNumbers(3000);
  for (size_t i = 0; i + 2 < x.size(); i += 3) {
    uint32_t a = x[i], b = x[i + 1], c = x[i + 2];
    EXPECT_NE(add(add(a, b), c), add(a, add(b, c)));
    EXPECT_NE(add(mul(a, b), c), fma(a, b, c));
    EXPECT_NE(mul(mul(a, b), c), mul(a, mul(b, c)));
    // What IEEE 754 says is equal.
    EXPECT_EQ(add(a, b), add(b, a));
    EXPECT_EQ(mul(a, b), mul(b, a));
    EXPECT_EQ(mul(neg(a), b), neg(mul(a, b)));
    EXPECT_EQ(add(neg(a), neg(b)), neg(add(a, b)));
  }
}

TEST(EmuProvenance, KnowsExactResults) {
  for (uint32_t x : someNumbers(100)) {
    uint32_t h = mul(x, bits(3.0f)); // of a hash as of an input
    for (uint32_t y : {x, h}) {
      EXPECT_EQ(add(y, zero), y);
      EXPECT_EQ(add(minusZero, y), y);
      EXPECT_EQ(add(y, neg(y)), zero);
      EXPECT_EQ(mul(y, bits(1.0f)), y);
      EXPECT_EQ(mul(y, bits(-1.0f)), neg(y));
      EXPECT_EQ(mul(zero, y) & 0x7fffffff, zero);
      EXPECT_EQ(fma(zero, y, h), h);
      EXPECT_EQ(fma(y, h, zero), mul(y, h));
      EXPECT_EQ(fma(bits(1.0f), y, bits(5.0f)), add(y, bits(5.0f)));
      EXPECT_EQ(hash(EmuProvenanceDiv, zero, neg(y)) & 0x7fffffff, zero);
      EXPECT_EQ(add(minusInf, y), minusInf);
      EXPECT_EQ(narrow(uint32_t(narrow(y)) << 16), narrow(y)) << "twice";
      EXPECT_EQ(narrow(neg(y)), narrow(y) ^ 0x8000);
    }
  }
  EXPECT_EQ(exp2(zero), bits(1.0f));
  EXPECT_EQ(exp2(minusInf), zero);
  EXPECT_EQ(narrow(minusInf), 0xff80);
  EXPECT_EQ(narrow(bits(1.5f)), 0x3fc0) << "exact";
  EXPECT_TRUE(std::isnan(number(add(inf, minusInf))));
  EXPECT_TRUE(std::isnan(number(mul(bits(NAN), zero))));
  EXPECT_TRUE(std::isnan(number(hash(EmuProvenanceSqrt, bits(-1.0f)))));
}

// Of hashes only the sign is that of the number, as far as it is known.
TEST(EmuProvenance, HashesAreOrdinaryNumbers) {
  std::vector<uint32_t> x = someNumbers(30000);
  std::set<uint32_t> sums;
  std::set<uint16_t> narrowed;
  for (size_t i = 0; i + 1 < x.size(); i += 2) {
    uint32_t a = x[i], b = x[i + 1];
    for (uint32_t y : {add(a, b), mul(a, b), fma(a, b, x[0]), exp2(a), hash(EmuProvenanceTanh, a),
                       hash(EmuProvenanceSqrt, a & 0x7fffffff), hash(EmuProvenanceDiv, a, b),
                       hash(EmuProvenanceSin, a)}) {
      EXPECT_GE(std::fabs(number(y)), 0.5f);
      EXPECT_LT(std::fabs(number(y)), 8.0f);
      EXPECT_NE(std::fabs(number(y)), 1.0f);
    }
    EXPECT_GT(number(exp2(a)), 0);
    EXPECT_EQ(std::signbit(number(mul(a, b))), std::signbit(number(a)) != std::signbit(number(b)));
    EXPECT_EQ(std::signbit(number(add(exp2(a), exp2(b)))), false);
    float wide = bf16ToF32(narrow(a));
    EXPECT_TRUE(std::isnormal(wide));
    EXPECT_EQ(std::signbit(wide), std::signbit(number(a)));
    sums.insert(add(a, b));
    narrowed.insert(narrow(a));
  }
  // 15000 of 2^26, and of 2^15.
  EXPECT_GE(sums.size(), 14980u);
  EXPECT_GE(narrowed.size(), 11000u);
}

TEST(EmuProvenance, SumsOfProductsKnowTheirPlaces) {
  std::mt19937 random(5); // NOLINT(bugprone-random-generator-seed): the same numbers each time
  auto some = [&] {
    std::vector<uint16_t> values(16);
    for (uint16_t &value : values)
      value = f32ToBf16(float(int(random() % 2000) - 1000) / 64 + 0.001f);
    return values;
  };
  uint32_t c = bits(0.3f);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint16_t> a = some(), b = some(), none(16, 0);
    uint32_t sum = provenanceOfSum(c, a, b);
    EXPECT_EQ(provenanceOfSum(c, b, a), sum) << "factors commute";
    EXPECT_EQ(provenanceOfSum(c, a, none), c);
    EXPECT_EQ(provenanceOfSum(c, none, b), c);
    EXPECT_NE(provenanceOfSum(zero, a, b), sum);
    // Every product counts, with its sign and its place.
    for (size_t k = 0; k < 16; ++k) {
      std::vector<uint16_t> other = a;
      other[k] = 0;
      EXPECT_NE(provenanceOfSum(c, other, b), sum);
      other[k] = a[k] ^ 0x8000;
      EXPECT_NE(provenanceOfSum(c, other, b), sum);
      other[(k + 1) % 16] ^= 0x8000;
      EXPECT_NE(provenanceOfSum(c, other, b), sum);
      other = a;
      std::vector<uint16_t> moved = b;
      std::swap(other[k], other[(k + 5) % 16]);
      std::swap(moved[k], moved[(k + 5) % 16]);
      EXPECT_NE(provenanceOfSum(c, other, moved), sum);
    }
    // One instruction after another, or sums of their own.
    std::vector<uint16_t> a2 = some(), b2 = some();
    EXPECT_NE(provenanceOfSum(sum, a2, b2), add(sum, provenanceOfSum(zero, a2, b2)));
    EXPECT_NE(provenanceOfSum(sum, a2, b2), provenanceOfSum(provenanceOfSum(c, a2, b2), a, b));
    a[3] = 0x7fff;
    EXPECT_TRUE(std::isnan(number(provenanceOfSum(c, a, none)))) << "NaN is never skipped";
  }
}

/// A small kernel made with hashes, of one thread.
uint32_t run(const std::string &body, uint64_t in) {
  codegen::EmuCodegenOptions options;
  options.provenance = true;
  auto object = codegen::compilePtx(
      smallKernel("ld.global.v2.f32 {%f1, %f2}, [%d0];\n" + body + "\nst.global.f32 [%d1], %f9;"),
      options);
  EXPECT_TRUE(object) << object.error().message;
  if (!object)
    return 0;
  auto module = Module::load(object->bytes, "test");
  EXPECT_TRUE(module.ok());
  GlobalMemory memory;
  Buffer<uint64_t> input(memory, 1, "in"), output(memory, 1, "out");
  input[0] = in;
  output[0] = 0;
  ParamBuilder params;
  params.add(input.data).add(output.data);
  auto report = launch(*module, "k", {1, 1, 1}, {1, 1, 1}, 0, params.bytes(), memory, pool());
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report->messages(), "");
  return uint32_t(output[0]);
}

TEST(EmuProvenance, CodeHashesInPlaceOfComputing) {
  uint32_t a = bits(2.75f), b = bits(-0.3f);
  uint64_t in = a | uint64_t(b) << 32;
  EXPECT_EQ(run("add.rn.f32 %f9, %f1, %f2;", in), add(a, b));
  EXPECT_EQ(run("sub.rn.f32 %f9, %f1, %f2;", in), add(a, neg(b)));
  EXPECT_EQ(run("mul.f32 %f3, %f1, %f2; add.f32 %f9, %f3, %f1;", in), add(mul(a, b), a));
  EXPECT_EQ(run("fma.rn.f32 %f9, %f1, %f2, %f1;", in), fma(a, b, a));
  EXPECT_EQ(run("rcp.rn.f32 %f9, %f1;", in), hash(EmuProvenanceDiv, bits(1.0f), a));
  EXPECT_EQ(run("div.approx.f32 %f9, %f1, %f2;", in),
            hash(EmuProvenanceDiv | EmuProvenanceApprox, a, b));
  EXPECT_EQ(run("ex2.approx.f32 %f9, %f2;", in), exp2(b));
  EXPECT_EQ(run("neg.f32 %f3, %f1; max.f32 %f9, %f3, %f2;", in), b);
  EXPECT_EQ(run("cvt.rn.bf16.f32 %h1, %f2; cvt.f32.bf16 %f9, %h1;", in), uint32_t(narrow(b)) << 16);
  EXPECT_EQ(run("cvt.rn.bf16x2.f32 %r9, %f2, %f1; mov.b32 %f9, %r9;", in),
            uint32_t(narrow(b)) << 16 | narrow(a));
  EXPECT_EQ(run("mov.u32 %r9, 7; cvt.rn.f32.u32 %f9, %r9;", in), bits(7.0f)) << "an input";
}

TEST(EmuProvenance, RefusesWhatHasNoHash) {
  const std::string product = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                              "{%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, "
                              "{%f1, %f2, %f3, %f4};";
  const std::vector<std::string> texts = {
      "cvt.rzi.s32.f32 %r9, %f1;",  "cvt.rni.f32.f32 %f9, %f1;",
      "add.sat.f32 %f9, %f1, %f2;", "add.f64 %d9, %d8, %d7;",
      "add.rn.f16 %h9, %h1, %h2;",  "cvt.rn.f16.f32 %h9, %f1;",
      "cvt.f64.f32 %d9, %f1;",      "atom.global.add.f32 %f9, [%d0], %f1;",
      "cvt.rn.bf16.f64 %h9, %d9;",  product};
  for (const std::string &text : texts) {
    codegen::EmuCodegenOptions options;
    EXPECT_TRUE(codegen::compilePtx(smallKernel(text), options)) << text;
    options.provenance = true;
    auto refused = codegen::compilePtx(smallKernel(text), options);
    ASSERT_FALSE(refused) << text;
    EXPECT_NE(refused.error().message.find("provenance"), std::string::npos)
        << refused.error().message;
  }
}

} // namespace
} // namespace gemma::emu::test
