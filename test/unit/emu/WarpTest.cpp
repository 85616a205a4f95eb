// What the threads of a warp and of a block do together.
#include "test/unit/emu/EmuHarness.h"

#include "runtime/support/BFloat16.h"

#include <bit>

namespace gemma::emu::test {
namespace {

TEST(EmuWarp, Shuffles) {
  struct Case {
    std::string text;
    std::function<int(int)> source; ///< -1: out of range
  };
  const Case cases[] = {
      {"shfl.sync.up.b32 %r3|%p1, %r0, 3, 0, -1;", [](int l) { return l >= 3 ? l - 3 : -1; }},
      {"shfl.sync.down.b32 %r3|%p1, %r0, 5, 31, -1;", [](int l) { return l < 27 ? l + 5 : -1; }},
      {"shfl.sync.bfly.b32 %r3|%p1, %r0, 9, 31, -1;", [](int l) { return l ^ 9; }},
      {"shfl.sync.idx.b32 %r3|%p1, %r0, 11, 31, -1;", [](int) { return 11; }},
      // Segments of 8 lanes: mask 0x18 in bits 8..12.
      {"shfl.sync.idx.b32 %r3|%p1, %r0, 2, 0x181f, -1;", [](int l) { return (l & 24) + 2; }},
      {"shfl.sync.down.b32 %r3|%p1, %r0, 4, 0x181f, -1;",
       [](int l) { return (l & 7) < 4 ? l + 4 : -1; }},
      {"shfl.sync.up.b32 %r3|%p1, %r0, 1, 0x1800, -1;",
       [](int l) { return (l & 7) >= 1 ? l - 1 : -1; }},
  };
  for (const Case &c : cases) {
    std::string text = smallKernel(c.text + " selp.u32 %r4, 1, 0, %p1; mov.b64 %d4, {%r3, %r4}; "
                                            "st.global.u64 [%d1], %d4;");
    expectValidPtx(text);
    for (Order order : {Order::Forward, Order::Reverse, Order::Random}) {
      LaunchOptions options;
      options.order = order;
      SmallRun run(text, 64, {0}, 1, options);
      EXPECT_EQ(run.report.messages(), "");
      for (int t = 0; t < 64; ++t) {
        int source = c.source(t % 32);
        uint64_t expected = source < 0 ? uint64_t(t) : uint64_t(t / 32 * 32 + source) | 1ull << 32;
        EXPECT_EQ(run[size_t(t)], expected) << c.text << " lane " << t;
      }
    }
  }
}

TEST(EmuWarp, VotesMatchesReduces) {
  struct Case {
    std::string text;
    std::function<uint32_t(int)> host; ///< of a lane whose %r3 is lane % 3
  };
  auto lanesOf = [](int value) {
    uint32_t mask = 0;
    for (int l = 0; l < 32; ++l)
      mask |= uint32_t(l % 3 == value) << l;
    return mask;
  };
  const Case cases[] = {
      {"vote.sync.ballot.b32 %r4, %p1, -1;", [&](int) { return lanesOf(0); }},
      {"vote.sync.any.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2;", [](int) { return 1u; }},
      {"vote.sync.all.pred %p2, %p1, -1; selp.u32 %r4, 1, 0, %p2;", [](int) { return 0u; }},
      {"vote.sync.uni.pred %p2, !%p1, -1; selp.u32 %r4, 1, 0, %p2;", [](int) { return 0u; }},
      {"match.any.sync.b32 %r4, %r3, -1;", [&](int l) { return lanesOf(l % 3); }},
      {"match.all.sync.b32 %r4|%p2, %r3, -1; @!%p2 add.u32 %r4, %r4, 7;", [](int) { return 7u; }},
      {"redux.sync.add.s32 %r4, %r0, -1;", [](int) { return 496u; }},
      {"redux.sync.max.u32 %r4, %r0, -1;", [](int) { return 31u; }},
      {"neg.s32 %r5, %r0; redux.sync.min.s32 %r4, %r5, -1;", [](int) { return uint32_t(-31); }},
      {"redux.sync.or.b32 %r4, %r3, -1;", [](int) { return 3u; }},
      {"redux.sync.xor.b32 %r4, %r0, -1;", [](int) { return 0u; }},
      {"activemask.b32 %r4;", [](int l) { return 1u << l; }},
      {"mov.u32 %r4, %lanemask_lt;", [](int l) { return (1u << l) - 1; }},
  };
  for (const Case &c : cases) {
    std::string text = smallKernel("rem.u32 %r3, %r0, 3; setp.eq.u32 %p1, %r3, 0; " + c.text +
                                   " st.global.u32 [%d1], %r4;");
    expectValidPtx(text);
    SmallRun run(text, 32);
    EXPECT_EQ(run.report.messages(), "");
    for (int l = 0; l < 32; ++l)
      EXPECT_EQ(run[size_t(l)], c.host(l)) << c.text << " lane " << l;
  }
}

TEST(EmuWarp, LetsPartsOfAWarpWorkApart) {
  // Each half shuffles among its own lanes, by different instructions.
  SmallRun run(smallKernel("setp.ge.u32 %p1, %r0, 16; @%p1 bra high;\n"
                           "shfl.sync.bfly.b32 %r3, %r0, 1, 31, 0xffff; bra end;\n"
                           "high: shfl.sync.bfly.b32 %r3, %r0, 2, 31, 0xffff0000;\n"
                           "end: st.global.u32 [%d1], %r3;"),
               32);
  EXPECT_EQ(run.report.messages(), "");
  for (uint64_t l = 0; l < 32; ++l)
    EXPECT_EQ(run[l], l ^ (l < 16 ? 1 : 2));
}

TEST(EmuWarp, NamesLanesThatDiverge) {
  SmallRun run(smallKernel("setp.ge.u32 %p1, %r0, 16; @%p1 bra high;\n"
                           "shfl.sync.bfly.b32 %r3, %r0, 1, 31, -1; bra end;\n"
                           "high: vote.sync.ballot.b32 %r3, %p1, -1;\n"
                           "end: st.global.u32 [%d1], %r3;"),
               32);
  EXPECT_TRUE(has(run.report, FindingKind::DivergentWarp)) << run.report.messages();
  EXPECT_FALSE(run.report.completed);
}

/// What a warp whose lanes from 16 on go another way does wrong: `low` and `high` stand on lines of
/// their own.
Finding divergence(const std::string &low, const std::string &high, uint32_t threads = 32) {
  std::string text =
      smallKernel(".shared .align 16 .b8 m[512]; mov.u32 %r3, m; mad.lo.u32 %r4, %r0, 16, %r3;\n"
                  "mov.u32 %r5, 0; st.shared.v4.u32 [%r4], {%r5, %r5, %r5, %r5}; bar.sync 0;\n"
                  "mov.f32 %f1, 0f00000000;\n"
                  "setp.ge.u32 %p1, %r0, 16; @%p1 bra high;\n" +
                  low + " // low\nbra end;\nhigh:\n" + high + " // high\nend:");
  expectValidPtx(text);
  SmallRun run(text, threads);
  EXPECT_FALSE(run.report.completed) << low << " | " << high;
  if (run.report.findings.empty()) {
    ADD_FAILURE() << low << " | " << high;
    return {};
  }
  Finding finding = run.report.findings.front();
  std::string texts = finding.text + finding.otherText;
  EXPECT_NE(texts.find("// low"), std::string::npos) << finding.message();
  EXPECT_NE(texts.find("// high"), std::string::npos) << finding.message();
  return finding;
}

TEST(EmuWarp, NamesBothLinesWhereLanesMeet) {
  // The same instruction twice, and different ones.
  std::string matrices = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4];";
  std::string product = "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f1, %f1, %f1, %f1}, "
                        "{%r5, %r5}, {%r5}, {%f1, %f1, %f1, %f1};";
  std::string shuffle = "shfl.sync.bfly.b32 %r10, %r0, 1, 31, -1;";
  std::string barrier = "bar.sync 0;";
  std::string reduction = "bar.red.popc.u32 %r10, 0, %p1;";
  for (const auto &[low, high] : {std::pair(matrices, matrices),
                                  {product, product},
                                  {shuffle, shuffle},
                                  {matrices, product},
                                  {shuffle, product},
                                  {"vote.sync.any.pred %p2, %p1, -1;", shuffle}})
    EXPECT_EQ(divergence(low, high).kind, FindingKind::DivergentWarp);
  for (const auto &[low, high] : {std::pair(barrier, barrier),
                                  {barrier, reduction},
                                  {barrier, "bar.sync 1;"},
                                  {"barrier.sync.aligned 2;", barrier},
                                  {barrier, product}})
    EXPECT_EQ(divergence(low, high).kind, FindingKind::DivergentBarrier);
  // PTX lets lanes vote by different instructions of the same kind.
  std::string vote = "vote.sync.ballot.b32 %r3, %p1, -1;";
  SmallRun run(smallKernel("setp.ge.u32 %p1, %r0, 16; @%p1 bra high;\n" + vote +
                           "\nbra end;\nhigh:\n" + vote + "\nend: st.global.u32 [%d1], %r3;"),
               32);
  EXPECT_EQ(run.report.messages(), "");
  EXPECT_EQ(run[0], 0xffff0000u);
}

TEST(EmuWarp, NamesAShuffleFromALaneThatIsNotThere) {
  SmallRun run(smallKernel("setp.ge.u32 %p1, %r0, 16; @%p1 ret;\n"
                           "shfl.sync.idx.b32 %r3, %r0, 20, 31, 0xffff;\n"
                           "st.global.u32 [%d1], %r3;"),
               32);
  EXPECT_TRUE(has(run.report, FindingKind::DivergentWarp)) << run.report.messages();
}

/// Matrices of 16-bit elements 1000·matrix + 10·row + column, rows of 16 bytes one after another.
std::string matrixKernel(const std::string &instruction) {
  // Thread t < 32 writes row t: matrix t / 8, row t % 8.
  std::string fill = ".shared .align 16 .b8 m[512]; mov.u32 %r3, m; mad.lo.u32 %r4, %r0, 16, %r3;\n"
                     "shr.u32 %r5, %r0, 3; and.b32 %r6, %r0, 7; mul.lo.u32 %r5, %r5, 1000;\n"
                     "mad.lo.u32 %r5, %r6, 10, %r5; cvt.u16.u32 %h1, %r5;\n";
  for (int c = 0; c < 8; ++c)
    fill += "st.shared.u16 [%r4+" + std::to_string(2 * c) + "], %h1; add.u16 %h1, %h1, 1;\n";
  return smallKernel(fill + "bar.sync 0;\n" + instruction + "\nst.global.u64 [%d1], %d4;");
}

TEST(EmuWarp, LoadsMatrices) {
  auto element = [](int matrix, int row, int column) {
    return uint64_t(matrix) * 1000 + uint64_t(row) * 10 + uint64_t(column);
  };
  std::string direct =
      matrixKernel("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];\n"
                   "mov.b64 %d4, {%r10, %r13};");
  std::string transposed =
      matrixKernel("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r10, %r11}, [%r4];\n"
                   "mov.b64 %d4, {%r10, %r11};");
  std::string one = matrixKernel(
      "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r4]; mov.b64 %d4, {%r10, %r10};");
  expectValidPtx(direct);
  expectValidPtx(transposed);
  SmallRun a(direct, 32), b(transposed, 32), c(one, 32);
  EXPECT_EQ(a.report.messages() + b.report.messages() + c.report.messages(), "");
  for (int l = 0; l < 32; ++l) {
    int major = l / 4, minor = l % 4 * 2;
    EXPECT_EQ(a[size_t(l)], element(0, major, minor) | element(0, major, minor + 1) << 16 |
                                element(3, major, minor) << 32 |
                                element(3, major, minor + 1) << 48);
    EXPECT_EQ(b[size_t(l)], element(0, minor, major) | element(0, minor + 1, major) << 16 |
                                element(1, minor, major) << 32 |
                                element(1, minor + 1, major) << 48);
    EXPECT_EQ(c[size_t(l)] & 0xffffffff, element(0, major, minor) | element(0, major, minor + 1)
                                                                        << 16);
  }
}

/// Multiplies A and B whose elements are small integers made from their place, plus C = 0.5.
void checkMma(bool bf16, bool wide) {
  int K = wide ? 16 : 8;
  auto a = [](int i, int k) { return float((i * 3 + k * 5) % 11 - 5); };
  auto w = [](int k, int j) { return float((k * 7 + j * 2) % 9 - 4); };
  auto bits = [&](float x) -> uint64_t {
    if (bf16)
      return f32ToBf16(x);
    for (uint32_t h = 0; h < 0x10000; ++h)
      if (f16ToF32(uint16_t(h)) == x)
        return h;
    return 0;
  };
  int registersA = wide ? 4 : 2, registersB = wide ? 2 : 1;
  // Each lane needs up to 6 registers: 3 elements of `in`, 96 elements for a warp; two passes of
  // output for 4 results.
  std::vector<uint64_t> in(96);
  for (int l = 0; l < 32; ++l) {
    std::vector<uint64_t> words;
    int group = l / 4, pair = l % 4 * 2;
    for (int r = 0; r < registersA; ++r) {
      int row = group + r % 2 * 8, column = pair + r / 2 * 8;
      words.push_back(bits(a(row, column)) | bits(a(row, column + 1)) << 16);
    }
    for (int r = 0; r < registersB; ++r)
      words.push_back(bits(w(pair + r * 8, group)) | bits(w(pair + r * 8 + 1, group)) << 16);
    words.resize(6);
    for (int p = 0; p < 3; ++p)
      in[size_t(l) * 3 + size_t(p)] = words[size_t(p) * 2] | words[size_t(p) * 2 + 1] << 32;
  }
  std::string type = bf16 ? "bf16" : "f16";
  std::string list = wide ? "{%r10, %r11, %r12, %r13}, {%r14, %r15}" : "{%r10, %r11}, {%r12}";
  std::string text = smallKernel(
      "setp.ge.u32 %p1, %r0, 32; @%p1 ret;\n"
      "mad.wide.u32 %d4, %r0, 24, %d2; ld.global.v2.u32 {%r10, %r11}, [%d4];\n"
      "ld.global.v2.u32 {%r12, %r13}, [%d4+8]; ld.global.v2.u32 {%r14, %r15}, [%d4+16];\n"
      "mov.f32 %f0, 0f3F000000;\n"
      "mma.sync.aligned.m16n8k" +
      std::to_string(K) + ".row.col.f32." + type + "." + type + ".f32 {%f1, %f2, %f3, %f4}, " +
      list +
      ", {%f0, %f0, %f0, %f0};\n"
      "mad.wide.u32 %d5, %r0, 16, %d3; st.global.v4.f32 [%d5], {%f1, %f2, %f3, %f4};");
  expectValidPtx(text);
  SmallRun run(text, 96, in);
  EXPECT_EQ(run.report.messages(), "");
  EXPECT_EQ(run.report.counters.mmaFlops, uint64_t(2 * 16 * 8 * K));
  for (int l = 0; l < 32; ++l)
    for (int r = 0; r < 4; ++r) {
      int row = l / 4 + r / 2 * 8, column = l % 4 * 2 + r % 2;
      float expected = 0.5f;
      for (int k = 0; k < K; ++k)
        expected += a(row, k) * w(k, column);
      uint64_t word = run[size_t(l) * 2 + size_t(r / 2)] >> (32 * (r % 2));
      EXPECT_EQ(std::bit_cast<float>(uint32_t(word)), expected) << l << " " << r;
    }
}

TEST(EmuWarp, MultipliesMatrices) {
  checkMma(true, true);
  checkMma(false, true);
  checkMma(true, false);
  checkMma(false, false);
}

TEST(EmuBarrier, ReducesOverTheBlock) {
  std::string text = smallKernel(
      "setp.lt.u32 %p1, %r0, 40; bar.red.popc.u32 %r3, 1, %p1;\n"
      "bar.red.and.pred %p2, 2, %p1; barrier.sync 3; bar.red.or.pred %p3, 2, 96, !%p1;\n"
      "@%p2 add.u32 %r3, %r3, 100; @%p3 add.u32 %r3, %r3, 1000;\n"
      "st.global.u32 [%d1], %r3;");
  expectValidPtx(text);
  SmallRun run(text, 96);
  EXPECT_EQ(run.report.messages(), "");
  for (uint64_t t = 0; t < 96; ++t)
    EXPECT_EQ(run[t], 1040u);
}

/// Warps 0 and 1 produce, warps 2 and 3 consume: full barrier 1, empty barrier 2.
std::string producerConsumer(bool waitFull, bool waitEmpty) {
  return smallKernel(
      ".shared .align 4 .b8 box[256]; mov.u32 %r3, box; and.b32 %r4, %r0, 63;\n"
      "mad.lo.u32 %r4, %r4, 4, %r3; mov.u32 %r5, 0; mov.u32 %r6, 0;\n"
      "setp.ge.u32 %p1, %r0, 64; @%p1 bra consume;\n"
      "produce: mad.lo.u32 %r7, %r5, 1000, %r0; st.shared.u32 [%r4], %r7; bar.arrive 1, 128;\n" +
      std::string(waitEmpty ? "bar.sync 2, 128;\n" : "") +
      "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra produce; bra end;\n"
      "consume:\n" +
      std::string(waitFull ? "bar.sync 1, 128;\n" : "") +
      // A consumer reads what its mirror image wrote.
      "sub.u32 %r8, %r3, %r4; add.u32 %r8, %r8, 252; add.u32 %r8, %r8, %r3; ld.shared.u32 %r7, "
      "[%r8]; add.u32 %r6, %r6, %r7;\n" +
      std::string(waitEmpty ? "bar.arrive 2, 128;\n" : "") +
      "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra consume;\n"
      "end: st.global.u32 [%d1], %r6;");
}

TEST(EmuBarrier, SynchronisesByName) {
  expectValidPtx(producerConsumer(true, true));
  for (const Mode &mode : allModes()) {
    LaunchOptions options;
    options.order = mode.order;
    options.seed = mode.seed;
    SmallRun run(producerConsumer(true, true), 128, {0}, 1, options);
    EXPECT_EQ(run.report.messages(), "");
    for (uint64_t t = 0; t < 64; ++t)
      EXPECT_EQ(run[64 + t], 3 * (63 - t) + 3000);
    SmallRun early(producerConsumer(true, false), 128, {0}, 1, options);
    EXPECT_TRUE(has(early.report, FindingKind::SharedRace) ||
                has(early.report, FindingKind::DivergentBarrier))
        << early.report.messages();
    SmallRun late(producerConsumer(false, true), 128, {0}, 1, options);
    EXPECT_TRUE(has(late.report, FindingKind::SharedRace)) << late.report.messages();
  }
}

TEST(EmuBarrier, OrdersAWarpByWarpSync) {
  auto text = [](const std::string &between) {
    return smallKernel(".shared .align 4 .b8 box[256]; mov.u32 %r3, box; mad.lo.u32 %r4, %r0, 4, "
                       "%r3; st.shared.u32 [%r4], %r0;\n" +
                       between +
                       "\nxor.b32 %r5, %r0, 1; mad.lo.u32 %r5, %r5, 4, %r3; ld.shared.u32 %r6, "
                       "[%r5]; st.global.u32 [%d1], %r6;");
  };
  for (const Mode &mode : allModes()) {
    LaunchOptions options;
    options.order = mode.order;
    options.seed = mode.seed;
    SmallRun good(text("bar.warp.sync -1;"), 64, {0}, 1, options);
    EXPECT_EQ(good.report.messages(), "");
    for (uint64_t t = 0; t < 64; ++t)
      EXPECT_EQ(good[t], t ^ 1);
    EXPECT_TRUE(has(SmallRun(text(""), 64, {0}, 1, options).report, FindingKind::SharedRace));
    // A shuffle brings lanes together but orders no memory.
    EXPECT_TRUE(
        has(SmallRun(text("shfl.sync.idx.b32 %r7, %r0, 0, 31, -1;"), 64, {0}, 1, options).report,
            FindingKind::SharedRace));
    // A fence alone orders nothing without somebody to meet.
    EXPECT_TRUE(
        has(SmallRun(text("membar.cta;"), 64, {0}, 1, options).report, FindingKind::SharedRace));
  }
}

TEST(EmuBarrier, NamesAWarpSplitOverTwoBarriers) {
  SmallRun run(smallKernel("setp.lt.u32 %p1, %r0, 7; @%p1 bra other; bar.sync 0; bra end;\n"
                           "other: bar.sync 0; end:"),
               64);
  EXPECT_TRUE(has(run.report, FindingKind::DivergentBarrier)) << run.report.messages();
  // barrier.sync without .aligned may be reached by several instructions.
  SmallRun fine(smallKernel("setp.lt.u32 %p1, %r0, 7; @%p1 bra other; barrier.sync 0; bra end;\n"
                            "other: barrier.sync 0; end:"),
                64);
  EXPECT_EQ(fine.report.messages(), "");
}

TEST(EmuBarrier, NamesThreadsThatWaitForEachOther) {
  SmallRun run(smallKernel("setp.lt.u32 %p1, %r0, 32; @%p1 bra other; bar.sync 1; bra end;\n"
                           "other: bar.sync 2; end:"),
               64);
  ASSERT_TRUE(has(run.report, FindingKind::DivergentBarrier)) << run.report.messages();
  EXPECT_NE(run.report.findings[0].otherLine, 0u);
}

TEST(EmuBarrier, NamesATrap) {
  SmallRun run(smallKernel("setp.eq.u32 %p1, %r0, 33; @%p1 trap;"), 64);
  ASSERT_EQ(run.report.findings.size(), 1u);
  EXPECT_EQ(run.report.findings[0].kind, FindingKind::Trap);
  EXPECT_NE(run.report.findings[0].detail.find("thread 33"), std::string::npos);
}

} // namespace
} // namespace gemma::emu::test
