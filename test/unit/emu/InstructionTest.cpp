// One kernel an instruction, all in one PTX module: each thread applies it to its own operands and
// the result is compared with the host's arithmetic.
#include "test/unit/emu/EmuHarness.h"

#include "runtime/support/BFloat16.h"

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace gemma::emu::test {
namespace {

using Host = std::function<uint64_t(uint64_t, uint64_t, uint64_t)>;

enum class Operands { Integers, Floats, Halves };

struct Case {
  std::string text; ///< reads %r1..%r3 or %d1..%d3 or %h1..%h3, writes %r9 or %d9
  bool wide;        ///< the result is %d9
  Operands operands;
  Host host;
};

float f32(uint64_t bits) { return std::bit_cast<float>(uint32_t(bits)); }
uint64_t bits(float x) { return std::bit_cast<uint32_t>(x); }
double f64(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t bits(double x) { return std::bit_cast<uint64_t>(x); }
uint32_t u(uint64_t x) { return uint32_t(x); }
int32_t s(uint64_t x) { return int32_t(uint32_t(x)); }
uint64_t z(int32_t x) { return uint32_t(x); }
float bf(uint64_t x) { return bf16ToF32(uint16_t(x)); }
/// PTX's NaN of narrow types.
uint64_t toBf(double x) { return std::isnan(x) ? 0x7fff : f32ToBf16(float(x)); }

uint16_t toHalf(float x) {
  // Round to nearest even through the exact list of neighbours.
  if (std::isnan(x))
    return 0x7fff;
  uint16_t best = 0, sign = std::signbit(x) ? 0x8000 : 0;
  double magnitude = std::fabs(double(x));
  if (magnitude >= 65520.0)
    return sign | 0x7c00;
  double bestError = magnitude;
  for (uint32_t h = 1; h < 0x7c00; ++h) {
    double error = std::fabs(double(f16ToF32(uint16_t(h))) - magnitude);
    if (error < bestError || (error == bestError && !(h & 1))) {
      bestError = error;
      best = uint16_t(h);
    }
  }
  return sign | best;
}

const std::vector<Case> &cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> list;
    auto narrow = [&](const std::string &text, Host host) {
      list.push_back({text, false, Operands::Integers, std::move(host)});
    };
    auto wide = [&](const std::string &text, Host host) {
      list.push_back({text, true, Operands::Integers, std::move(host)});
    };
    auto floats = [&](const std::string &text, Host host, bool isWide = false) {
      list.push_back({text, isWide, Operands::Floats, std::move(host)});
    };
    auto halves = [&](const std::string &text, Host host) {
      list.push_back({text, false, Operands::Halves, std::move(host)});
    };
    using U = uint64_t;
    // Integers, 32 bits.
    narrow("add.s32 %r9, %r1, %r2;", [](U a, U b, U) { return u(a + b); });
    narrow("add.sat.s32 %r9, %r1, %r2;", [](U a, U b, U) {
      int64_t x = int64_t(s(a)) + s(b);
      return z(int32_t(std::clamp<int64_t>(x, INT32_MIN, INT32_MAX)));
    });
    narrow("sub.u32 %r9, %r1, %r2;", [](U a, U b, U) { return u(a - b); });
    narrow("mul.lo.s32 %r9, %r1, %r2;", [](U a, U b, U) { return u(u(a) * u(b)); });
    narrow("mul.hi.u32 %r9, %r1, %r2;", [](U a, U b, U) { return u((U(u(a)) * u(b)) >> 32); });
    narrow("mul.hi.s32 %r9, %r1, %r2;",
           [](U a, U b, U) { return u(U((int64_t(s(a)) * s(b)) >> 32)); });
    wide("mul.wide.u32 %d9, %r1, %r2;", [](U a, U b, U) { return U(u(a)) * u(b); });
    wide("mul.wide.s32 %d9, %r1, %r2;", [](U a, U b, U) { return U(int64_t(s(a)) * s(b)); });
    narrow("mad.lo.s32 %r9, %r1, %r2, %r3;", [](U a, U b, U c) { return u(u(a) * u(b) + u(c)); });
    narrow("mad.hi.u32 %r9, %r1, %r2, %r3;",
           [](U a, U b, U c) { return u(((U(u(a)) * u(b)) >> 32) + u(c)); });
    wide("mad.wide.s32 %d9, %r1, %r2, %d3;",
         [](U a, U b, U c) { return U(int64_t(s(a)) * s(b)) + c; });
    narrow("mul24.lo.u32 %r9, %r1, %r2;",
           [](U a, U b, U) { return u((a & 0xffffff) * (b & 0xffffff)); });
    narrow("or.b32 %r4, %r2, 1; div.u32 %r9, %r1, %r4;",
           [](U a, U b, U) { return u(u(a) / (u(b) | 1)); });
    narrow("or.b32 %r4, %r2, 1; rem.u32 %r9, %r1, %r4;",
           [](U a, U b, U) { return u(u(a) % (u(b) | 1)); });
    narrow("and.b32 %r4, %r2, 255; or.b32 %r4, %r4, 2; div.s32 %r9, %r1, %r4;",
           [](U a, U b, U) { return z(s(a) / int32_t((b & 255) | 2)); });
    narrow("and.b32 %r4, %r2, 255; or.b32 %r4, %r4, 2; rem.s32 %r9, %r1, %r4;",
           [](U a, U b, U) { return z(s(a) % int32_t((b & 255) | 2)); });
    narrow("abs.s32 %r9, %r1;", [](U a, U, U) { return u(s(a) < 0 ? 0 - u(a) : u(a)); });
    narrow("neg.s32 %r9, %r1;", [](U a, U, U) { return u(0 - u(a)); });
    narrow("min.s32 %r9, %r1, %r2;", [](U a, U b, U) { return z(std::min(s(a), s(b))); });
    narrow("max.s32 %r9, %r1, %r2;", [](U a, U b, U) { return z(std::max(s(a), s(b))); });
    narrow("min.u32 %r9, %r1, %r2;", [](U a, U b, U) { return std::min(u(a), u(b)); });
    narrow("max.u32 %r9, %r1, %r2;", [](U a, U b, U) { return std::max(u(a), u(b)); });
    narrow("and.b32 %r9, %r1, %r2;", [](U a, U b, U) { return u(a & b); });
    narrow("or.b32 %r9, %r1, %r2;", [](U a, U b, U) { return u(a | b); });
    narrow("xor.b32 %r9, %r1, %r2;", [](U a, U b, U) { return u(a ^ b); });
    narrow("not.b32 %r9, %r1;", [](U a, U, U) { return u(~a); });
    narrow("cnot.b32 %r9, %r1;", [](U a, U, U) { return U(u(a) == 0); });
    narrow("and.b32 %r4, %r2, 63; shl.b32 %r9, %r1, %r4;",
           [](U a, U b, U) { return (b & 63) > 31 ? 0 : u(u(a) << (b & 63)); });
    narrow("and.b32 %r4, %r2, 63; shr.u32 %r9, %r1, %r4;",
           [](U a, U b, U) { return (b & 63) > 31 ? 0 : u(a) >> (b & 63); });
    narrow("and.b32 %r4, %r2, 63; shr.s32 %r9, %r1, %r4;",
           [](U a, U b, U) { return z(s(a) >> std::min<U>(b & 63, 31)); });
    narrow("shf.l.wrap.b32 %r9, %r1, %r2, %r3;",
           [](U a, U b, U c) { return u((((U(u(b)) << 32) | u(a)) << (c & 31)) >> 32); });
    narrow("shf.r.clamp.b32 %r9, %r1, %r2, %r3;",
           [](U a, U b, U c) { return u(((U(u(b)) << 32) | u(a)) >> std::min<U>(u(c), 32)); });
    narrow("lop3.b32 %r9, %r1, %r2, %r3, 0xea;", [](U a, U b, U c) { return u((a & b) | c); });
    narrow("lop3.b32 %r9, %r1, %r2, %r3, 0x96;", [](U a, U b, U c) { return u(a ^ b ^ c); });
    narrow("bfe.u32 %r9, %r1, 5, 9;", [](U a, U, U) { return u(a) >> 5 & 511; });
    narrow("bfe.s32 %r9, %r1, 5, 9;", [](U a, U, U) { return z(s(u(a) << 18) >> 23); });
    narrow("bfe.u32 %r9, %r1, 28, 9;", [](U a, U, U) { return u(a) >> 28; });
    narrow("bfe.u32 %r9, %r1, 3, 0;", [](U, U, U) { return 0u; });
    wide("bfe.u64 %d9, %d1, 20, 33;", [](U a, U, U) { return a >> 20 & 0x1ffffffffull; });
    narrow("bfi.b32 %r9, %r1, %r2, 7, 6;",
           [](U a, U b, U) { return u((b & ~(63ull << 7)) | ((a & 63) << 7)); });
    narrow("popc.b32 %r9, %r1;", [](U a, U, U) { return U(std::popcount(u(a))); });
    narrow("clz.b32 %r9, %r1;", [](U a, U, U) { return U(std::countl_zero(u(a))); });
    narrow("popc.b64 %r9, %d1;", [](U a, U, U) { return U(std::popcount(a)); });
    narrow("bfind.u32 %r9, %r1;", [](U a, U, U) { return u(31 - std::countl_zero(u(a))); });
    narrow("brev.b32 %r9, %r1;", [](U a, U, U) {
      uint32_t x = 0;
      for (int i = 0; i < 32; ++i)
        x |= (u(a) >> i & 1) << (31 - i);
      return U(x);
    });
    narrow("prmt.b32 %r9, %r1, %r2, 0x5410;",
           [](U a, U b, U) { return u((a & 0xffff) | (b & 0xffff) << 16); });
    narrow("prmt.b32 %r9, %r1, %r2, 0x7bc8;", [](U a, U b, U) {
      auto sign = [](U x, int byte) { return x >> (8 * byte + 7) & 1 ? 0xffu : 0u; };
      return u(sign(a, 0) | sign(b, 0) << 8 | sign(a, 3) << 16 | (u(b) >> 24) << 24);
    });
    narrow("dp4a.s32.s32 %r9, %r1, %r2, %r3;", [](U a, U b, U c) {
      int32_t sum = s(c);
      for (int i = 0; i < 4; ++i)
        sum = int32_t(u(U(uint32_t(sum)) + u(U(int8_t(a >> 8 * i) * int8_t(b >> 8 * i)))));
      return z(sum);
    });
    // Integers, 64 bits.
    wide("add.s64 %d9, %d1, %d2;", [](U a, U b, U) { return a + b; });
    wide("mul.lo.s64 %d9, %d1, %d2;", [](U a, U b, U) { return a * b; });
    wide("mul.hi.u64 %d9, %d1, %d2;",
         [](U a, U b, U) { return U((static_cast<unsigned __int128>(a) * b) >> 64); });
    wide("shl.b64 %d9, %d1, 13;", [](U a, U, U) { return a << 13; });
    wide("shr.s64 %d9, %d1, 13;", [](U a, U, U) { return U(int64_t(a) >> 13); });
    wide("mad.lo.s64 %d9, %d1, %d2, %d3;", [](U a, U b, U c) { return a * b + c; });
    // Predicates and selection.
    narrow("setp.lt.s32 %p1, %r1, %r2; selp.b32 %r9, %r1, %r3, %p1;",
           [](U a, U b, U c) { return u(s(a) < s(b) ? a : c); });
    narrow("setp.hi.u32 %p1, %r1, %r2; @!%p1 bra L1; mov.u32 %r9, 5; bra L2; L1: mov.u32 %r9, 6; "
           "L2:",
           [](U a, U b, U) { return u(a) > u(b) ? 5 : 6; });
    narrow("setp.eq.u32 %p2, %r2, %r3; setp.ge.and.s32 %p1|%p3, %r1, %r2, %p2; "
           "selp.u32 %r9, 1, 0, %p1; @%p3 add.u32 %r9, %r9, 2;",
           [](U a, U b, U c) {
             bool ge = s(a) >= s(b), q = u(b) == u(c);
             return U((ge && q) + 2 * (!ge && q));
           });
    narrow("set.lt.u32.s32 %r9, %r1, %r2;", [](U a, U b, U) { return s(a) < s(b) ? ~0u : 0u; });
    narrow("slct.s32.s32 %r9, %r1, %r2, %r3;", [](U a, U b, U c) { return u(s(c) >= 0 ? a : b); });
    narrow("setp.ne.u32 %p1, %r1, %r2; not.pred %p2, %p1; xor.pred %p3, %p1, %p2; "
           "and.pred %p4, %p3, %p1; selp.u32 %r9, 1, 0, %p4;",
           [](U a, U b, U) { return U(u(a) != u(b)); });
    // Movement.
    narrow("mov.b32 {%h4, %h5}, %r1; mov.b32 %r9, {%h5, %h4};",
           [](U a, U, U) { return u(u(a) >> 16 | u(a) << 16); });
    wide("mov.b64 %d9, {%r1, %r2};", [](U a, U b, U) { return U(u(a)) | U(u(b)) << 32; });
    narrow("mov.b64 {_, %r9}, %d1;", [](U a, U, U) { return a >> 32; });
    // Conversions of integers.
    wide("cvt.s64.s32 %d9, %r1;", [](U a, U, U) { return U(int64_t(s(a))); });
    wide("cvt.u64.u32 %d9, %r1;", [](U a, U, U) { return U(u(a)); });
    narrow("cvt.u32.u64 %r9, %d1;", [](U a, U, U) { return u(a); });
    narrow("cvt.s32.s8 %r9, %r1;", [](U a, U, U) { return z(int8_t(a)); });
    narrow("cvt.u32.u16 %r9, %h1;", [](U a, U, U) { return a & 0xffff; });
    narrow("cvt.sat.s8.s32 %r9, %r1;", [](U a, U, U) { return z(std::clamp(s(a), -128, 127)); });
    narrow("cvt.rn.f32.s32 %r9, %r1;", [](U a, U, U) { return bits(float(s(a))); });
    narrow("cvt.rn.f32.u32 %r9, %r1;", [](U a, U, U) { return bits(float(u(a))); });
    narrow("cvt.rn.f32.s64 %r9, %d1;", [](U a, U, U) { return bits(float(int64_t(a))); });
    wide("cvt.rn.f64.s32 %d9, %r1;", [](U a, U, U) { return bits(double(s(a))); });
    // f32.
    floats("add.rn.f32 %r9, %r1, %r2;", [](U a, U b, U) { return bits(f32(a) + f32(b)); });
    floats("add.f32 %r9, %r1, 0f3F800000;", [](U a, U, U) { return bits(f32(a) + 1.0f); });
    floats("sub.f32 %r9, %r1, %r2;", [](U a, U b, U) { return bits(f32(a) - f32(b)); });
    floats("mul.rn.f32 %r9, %r1, %r2;", [](U a, U b, U) { return bits(f32(a) * f32(b)); });
    floats("fma.rn.f32 %r9, %r1, %r2, %r3;",
           [](U a, U b, U c) { return bits(std::fma(f32(a), f32(b), f32(c))); });
    floats("div.rn.f32 %r9, %r1, %r2;", [](U a, U b, U) { return bits(f32(a) / f32(b)); });
    floats("abs.f32 %r9, %r1;", [](U a, U, U) { return a & 0x7fffffff; });
    floats("neg.f32 %r9, %r1;", [](U a, U, U) { return u(a ^ 0x80000000); });
    floats("min.f32 %r9, %r1, %r2;", [](U a, U b, U) {
      return bits(std::isnan(f32(a))   ? f32(b)
                  : std::isnan(f32(b)) ? f32(a)
                                       : std::min(f32(a), f32(b)));
    });
    floats("max.f32 %r9, %r1, %r2;", [](U a, U b, U) {
      return bits(std::isnan(f32(a))   ? f32(b)
                  : std::isnan(f32(b)) ? f32(a)
                                       : std::max(f32(a), f32(b)));
    });
    floats("max.NaN.f32 %r9, %r1, %r2;", [](U a, U b, U) {
      return bits(std::isnan(f32(a)) || std::isnan(f32(b)) ? NAN : std::max(f32(a), f32(b)));
    });
    floats("add.sat.f32 %r9, %r1, %r2;", [](U a, U b, U) {
      float x = f32(a) + f32(b);
      return bits(x > 0 ? (x < 1 ? x : 1.0f) : 0.0f);
    });
    floats("mul.ftz.f32 %r9, %r1, %r2;", [](U a, U b, U) {
      auto flush = [](float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; };
      return bits(flush(flush(f32(a)) * flush(f32(b))));
    });
    floats("sqrt.rn.f32 %r9, %r1;", [](U a, U, U) { return bits(std::sqrt(f32(a))); });
    floats("rsqrt.approx.f32 %r9, %r1;", [](U a, U, U) { return bits(1.0f / std::sqrt(f32(a))); });
    floats("rcp.rn.f32 %r9, %r1;", [](U a, U, U) { return bits(1.0f / f32(a)); });
    floats("ex2.approx.f32 %r9, %r1;", [](U a, U, U) { return bits(std::exp2(f32(a))); });
    floats("lg2.approx.f32 %r9, %r1;", [](U a, U, U) { return bits(std::log2(f32(a))); });
    floats("tanh.approx.f32 %r9, %r1;", [](U a, U, U) { return bits(std::tanh(f32(a))); });
    floats("copysign.f32 %r9, %r1, %r2;",
           [](U a, U b, U) { return u((b & 0x7fffffff) | (a & 0x80000000)); });
    floats("testp.finite.f32 %p1, %r1; selp.u32 %r9, 1, 0, %p1;",
           [](U a, U, U) { return U(std::isfinite(f32(a))); });
    floats("setp.gt.f32 %p1, %r1, %r2; selp.u32 %r9, 1, 0, %p1;",
           [](U a, U b, U) { return U(f32(a) > f32(b)); });
    floats("setp.ltu.f32 %p1, %r1, %r2; selp.u32 %r9, 1, 0, %p1;",
           [](U a, U b, U) { return U(!(f32(a) >= f32(b))); });
    floats("setp.nan.f32 %p1, %r1, %r2; selp.u32 %r9, 1, 0, %p1;",
           [](U a, U b, U) { return U(std::isnan(f32(a)) || std::isnan(f32(b))); });
    floats("cvt.rzi.s32.f32 %r9, %r1;", [](U a, U, U) {
      double x = f32(a);
      return z(std::isnan(x) ? 0 : int32_t(std::clamp(std::trunc(x), -0x1p31, 0x1p31 - 1)));
    });
    floats("cvt.rni.u32.f32 %r9, %r1;", [](U a, U, U) {
      double x = f32(a);
      return std::isnan(x) ? 0u : u(U(std::clamp(std::nearbyint(x), 0.0, 0x1p32 - 1)));
    });
    floats("cvt.rmi.f32.f32 %r9, %r1;", [](U a, U, U) { return bits(std::floor(f32(a))); });
    floats("cvt.rpi.f32.f32 %r9, %r1;", [](U a, U, U) { return bits(std::ceil(f32(a))); });
    floats("cvt.f64.f32 %d9, %r1;", [](U a, U, U) { return bits(double(f32(a))); }, true);
    floats("cvt.sat.f32.f32 %r9, %r1;", [](U a, U, U) {
      float x = f32(a);
      return bits(x > 0 ? (x < 1 ? x : 1.0f) : 0.0f);
    });
    // f64.
    floats(
        "cvt.f64.f32 %d1, %r1; cvt.f64.f32 %d2, %r2; cvt.f64.f32 %d3, %r3; "
        "fma.rn.f64 %d9, %d1, %d2, %d3;",
        [](U a, U b, U c) {
          return bits(std::fma(double(f32(a)), double(f32(b)), double(f32(c))));
        },
        true);
    floats(
        "cvt.f64.f32 %d1, %r1; add.f64 %d9, %d1, 0d3FB999999999999A;",
        [](U a, U, U) { return bits(double(f32(a)) + 0.1); }, true);
    floats("cvt.f64.f32 %d1, %r1; mul.f64 %d1, %d1, 0d3FB999999999999A; cvt.rn.f32.f64 %r9, %d1;",
           [](U a, U, U) { return bits(float(double(f32(a)) * 0.1)); });
    // 16-bit floats.
    floats("cvt.rn.bf16x2.f32 %r9, %r1, %r2;",
           [](U a, U b, U) { return toBf(f32(a)) << 16 | toBf(f32(b)); });
    floats("cvt.rn.bf16.f32 %h9, %r1; mov.b32 %r9, {%h9, %h9};",
           [](U a, U, U) { return toBf(f32(a)) * 0x10001; });
    floats("cvt.rn.f16x2.f32 %r9, %r1, %r2;",
           [](U a, U b, U) { return U(toHalf(f32(a))) << 16 | toHalf(f32(b)); });
    floats("cvt.rn.f16.f32 %h9, %r1; cvt.u32.u16 %r9, %h9;",
           [](U a, U, U) { return U(toHalf(f32(a))); });
    halves("mov.b32 %r9, {0, %h1}; ", [](U a, U, U) { return u(a << 16); });
    halves("fma.rn.bf16x2 %r9, %r1, %r2, %r3;", [](U a, U b, U c) {
      U low = toBf(std::fma(double(bf(a)), double(bf(b)), double(bf(c))));
      U high = toBf(std::fma(double(bf(a >> 16)), double(bf(b >> 16)), double(bf(c >> 16))));
      return low | high << 16;
    });
    halves("cvt.f32.f16 %r9, %h1;", [](U a, U, U) { return bits(f16ToF32(uint16_t(a))); });
    halves("add.f16x2 %r9, %r1, %r2;", [](U a, U b, U) {
      auto add = [](U x, U y) { return U(toHalf(f16ToF32(uint16_t(x)) + f16ToF32(uint16_t(y)))); };
      return add(a, b) | add(a >> 16, b >> 16) << 16;
    });
    halves("mul.f16 %h9, %h1, %h2; cvt.u32.u16 %r9, %h9;",
           [](U a, U b, U) { return U(toHalf(f16ToF32(uint16_t(a)) * f16ToF32(uint16_t(b)))); });
    halves("max.bf16x2 %r9, %r1, %r2;", [](U a, U b, U) {
      auto most = [](U x, U y) { return toBf(std::max(bf(x), bf(y))); };
      return most(a, b) | most(a >> 16, b >> 16) << 16;
    });
    halves("neg.bf16x2 %r9, %r1;", [](U a, U, U) { return u(a ^ 0x80008000); });
    return list;
  }();
  return all;
}

std::string moduleText() {
  std::string text = ".version 7.8\n.target sm_80\n.address_size 64\n";
  for (size_t i = 0; i < cases().size(); ++i) {
    const Case &c = cases()[i];
    text += ".visible .entry op" + std::to_string(i) +
            "(.param .u64 in, .param .u64 out) {\n"
            ".reg .pred %p<8>; .reg .b16 %h<16>; .reg .b32 %r<32>; .reg .b64 %d<32>;\n"
            "ld.param.u64 %d20, [in]; ld.param.u64 %d21, [out]; mov.u32 %r20, %tid.x;\n"
            "mul.wide.u32 %d22, %r20, 24; add.s64 %d20, %d20, %d22;\n"
            "mul.wide.u32 %d22, %r20, 8; add.s64 %d21, %d21, %d22;\n"
            "ld.global.u64 %d1, [%d20]; ld.global.u64 %d2, [%d20+8];\n"
            "ld.global.u64 %d3, [%d20+16]; cvt.u32.u64 %r1, %d1; cvt.u32.u64 %r2, %d2;\n"
            "cvt.u32.u64 %r3, %d3; cvt.u16.u64 %h1, %d1; cvt.u16.u64 %h2, %d2;\n"
            "cvt.u16.u64 %h3, %d3;\n" +
            c.text + "\n" + (c.wide ? "" : "cvt.u64.u32 %d9, %r9;\n") +
            "st.global.u64 [%d21], %d9;\nret;\n}\n";
  }
  return text;
}

/// Operand triples of one kind, 64 of them.
std::vector<uint64_t> operandValues(Operands kind) {
  static const uint64_t integers[] = {0,
                                      1,
                                      2,
                                      31,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      0x123456789abcdef0,
                                      0xfedcba9876543210,
                                      0x8000000000000000,
                                      0xffffffffffffffff,
                                      200,
                                      0x00ff8037};
  static const float floats[] = {0.0f,     -0.0f,    1.0f,     -1.5f,       0.3f,     1e-40f,
                                 -2e-42f,  1e30f,    -3e9f,    2.5f,        3.5f,     1e-30f,
                                 65519.9f, 65520.0f, 6e-8f,    1.00390625f, INFINITY, -INFINITY,
                                 NAN,      0.4999f,  123456.7f};
  std::vector<uint64_t> values;
  uint64_t state = 12345;
  auto next = [&] { return state = state * 6364136223846793005ull + 1442695040888963407ull; };
  for (int i = 0; i < 64 * 3; ++i) {
    uint64_t pick = next() >> 33;
    if (kind == Operands::Integers)
      values.push_back(i % 5 == 0 ? next() : integers[pick % std::size(integers)]);
    else if (kind == Operands::Floats)
      values.push_back(i % 5 == 0 ? bits(float(int32_t(pick)) * 1e-7f)
                                  : bits(floats[pick % std::size(floats)]));
    else // finite 16-bit pairs, valid both as f16 and as bf16
      values.push_back((pick & 0x00ff00ff) | 0x3a003800 | (pick >> 8 & 0x80008000));
  }
  return values;
}

bool sameResult(uint64_t got, uint64_t expected, bool wide) {
  if (got == expected)
    return true;
  return wide ? std::isnan(f64(got)) && std::isnan(f64(expected))
              : std::isnan(f32(got)) && std::isnan(f32(expected));
}

TEST(EmuInstruction, AgreesWithTheHost) {
  const Module &module = moduleOf(moduleText());
  GlobalMemory memory;
  Buffer<uint64_t> in(memory, 64 * 3, "in"), out(memory, 64, "out");
  for (size_t i = 0; i < cases().size(); ++i) {
    const Case &c = cases()[i];
    std::vector<uint64_t> values = operandValues(c.operands);
    std::copy(values.begin(), values.end(), in.data);
    ParamBuilder params;
    params.add(in.data).add(out.data);
    Expected<LaunchReport> report = launch(module, "op" + std::to_string(i), {1, 1, 1}, {64, 1, 1},
                                           0, params.bytes(), memory, pool());
    ASSERT_TRUE(report.ok()) << report.error().message;
    ASSERT_EQ(report->messages(), "");
    for (size_t t = 0; t < 64; ++t) {
      uint64_t expected = c.host(values[t * 3], values[t * 3 + 1], values[t * 3 + 2]);
      if (!sameResult(out[t], expected, c.wide)) {
        ADD_FAILURE() << c.text << std::hex << " of " << values[t * 3] << ", " << values[t * 3 + 1]
                      << ", " << values[t * 3 + 2] << ": got " << out[t] << ", expected "
                      << expected;
        break;
      }
    }
  }
}

TEST(EmuInstruction, IsValidPtx) { expectValidPtx(moduleText()); }

/// What the translator refuses, and how it says so.
std::string refusal(const std::string &instruction) {
  Expected<codegen::EmuObject> object =
      codegen::compilePtx(".version 7.8\n.target sm_80\n.address_size 64\n"
                          ".visible .entry k()\n{\n.reg .b32 %r<4>; .reg .b64 %d<4>;\n"
                          ".reg .pred %p<4>;\n" +
                          instruction + "\nret;\n}\n");
  return object.ok() ? std::string() : object.error().message;
}

TEST(EmuInstruction, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("wgmma.fence.sync.aligned;"),
            "PTX line 8, kernel k: unknown instruction wgmma.fence.sync.aligned");
  EXPECT_EQ(refusal("add.rz.f32 %r1, %r2, %r3;"),
            "PTX line 8, kernel k: unknown modifier .rz of add.rz.f32");
  EXPECT_EQ(refusal("mul.s32 %r1, %r2, %r3;"),
            "PTX line 8, kernel k: expected .lo, .hi or .wide of mul.s32");
  EXPECT_EQ(refusal("mov.u32 %r1, %clock;"),
            "PTX line 8, kernel k: unknown special register %clock");
  EXPECT_EQ(refusal("mov.u32 %r1, nothing;"), "PTX line 8, kernel k: unknown name nothing");
  EXPECT_EQ(refusal("bra nowhere;"), "PTX line 8, kernel k: no label nowhere");
  EXPECT_EQ(refusal("add.u32 %r1, %r2;"),
            "PTX line 8, kernel k: expected 3 operands of add.u32, got 2");
  EXPECT_EQ(refusal("add.u32 %r1, %r2, %r3"), "PTX line 9, kernel k: expected ';', got 'ret'");
  EXPECT_EQ(refusal("cp.async.cg.shared.global [%r1], [%d1], 8;"),
            "PTX line 8, kernel k: expected 4, 8 or 16 bytes (with .cg: 16) in "
            "cp.async.cg.shared.global");
}

} // namespace
} // namespace gemma::emu::test
