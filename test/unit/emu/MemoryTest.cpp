// Loads, stores, address spaces, asynchronous copies, atomics.
#include "test/unit/emu/EmuHarness.h"

#include <bit>

namespace gemma::emu::test {
namespace {

TEST(EmuMemory, LoadsAndStoresEveryWidth) {
  struct Case {
    std::string body;
    std::function<uint64_t(uint64_t)> host;
  };
  const Case cases[] = {
      {"ld.global.u8 %r3, [%d0+1]; st.global.u32 [%d1], %r3;",
       [](uint64_t x) { return x >> 8 & 255; }},
      {"ld.global.s8 %r3, [%d0+1]; st.global.s32 [%d1], %r3;",
       [](uint64_t x) { return uint64_t(uint32_t(int32_t(int8_t(x >> 8)))); }},
      {"ld.global.s16 %d4, [%d0+2]; st.global.u64 [%d1], %d4;",
       [](uint64_t x) { return uint64_t(int64_t(int16_t(x >> 16))); }},
      {"ld.global.b16 %h1, [%d0]; st.global.b16 [%d1+2], %h1;",
       [](uint64_t x) { return (x & 0xffff) << 16; }},
      {"ld.global.nc.L1::no_allocate.L2::128B.v2.b32 {%r3, %r4}, [%d0]; st.global.v2.b32 [%d1], "
       "{%r4, %r3};",
       [](uint64_t x) { return x >> 32 | x << 32; }},
      {"ld.volatile.global.v4.u16 {%h1, %h2, %h3, %h4}, [%d0]; st.global.cs.v4.u16 [%d1], {%h4, "
       "%h3, %h2, %h1};",
       [](uint64_t x) {
         return x >> 48 | (x >> 16 & 0xffff0000) | (x & 0xffff0000) << 16 | x << 48;
       }},
      {"ld.b64 %d4, [%d0]; st.b64 [%d1], %d4;", [](uint64_t x) { return x; }},
      {"ld.global.ca.b32 %r3, [%d0]; st.global.wt.b8 [%d1+3], %r3;",
       [](uint64_t x) { return (x & 255) << 24; }},
      {"prefetch.global.L2 [%d0]; ld.relaxed.gpu.global.u64 %d4, [%d0]; st.release.gpu.global.u64 "
       "[%d1], %d4;",
       [](uint64_t x) { return x; }},
  };
  for (const Case &c : cases) {
    SmallRun run(smallKernel(c.body), 64, {0x8877665544332211, 0x0123456789abcdef, 0xfff0ff80ff});
    EXPECT_EQ(run.report.messages(), "") << c.body;
    EXPECT_EQ(run[0], c.host(0x8877665544332211)) << c.body;
    EXPECT_EQ(run[64 - 63], c.host(0x0123456789abcdef)) << c.body;
    EXPECT_EQ(run[2], c.host(0xfff0ff80ff)) << c.body;
  }
}

TEST(EmuMemory, LoadsSixteenBytes) {
  SmallRun run(smallKernel("and.b32 %r3, %r0, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra done;\n"
                           "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%d0];\n"
                           "st.global.v2.b64 [%d1], {%d4, %d4};\n"
                           "mov.b64 %d4, {%r4, %r5}; mov.b64 %d5, {%r6, %r7};\n"
                           "st.global.v2.b64 [%d1], {%d5, %d4};\ndone:"),
               32, {1, 2, 3, 4});
  EXPECT_EQ(run.report.messages(), "");
  EXPECT_EQ(run[0], 2u);
  EXPECT_EQ(run[1], 1u);
  EXPECT_EQ(run[2], 4u);
}

TEST(EmuMemory, KnowsTheVariablesOfAModule) {
  std::string variables = ".const .align 4 .b32 table[4] = {10, 20, 0x1e, -1};\n"
                          ".global .align 8 .b8 bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9};\n"
                          ".global .f32 ratio = 0f3FC00000;\n"
                          ".shared .align 8 .b8 fixed[256];\n"
                          ".extern .shared .align 128 .b8 dynamic[];\n";
  std::string body = "mov.u64 %d4, table; cvta.const.u64 %d4, %d4; ld.const.u32 %r3, [table+8];\n"
                     "ld.u32 %r4, [%d4+4]; ld.global.u8 %r5, [bytes+8];\n"
                     "ld.global.f32 %f1, [ratio]; cvt.rzi.s32.f32 %r6, %f1;\n"
                     "mov.u32 %r7, fixed; mov.u32 %r8, dynamic; sub.u32 %r9, %r8, %r7;\n"
                     "mad.lo.u32 %r10, %r0, 4, %r8; st.shared.u32 [%r10], %r0;\n"
                     "ld.shared.u32 %r11, [%r10]; mov.u32 %r12, %dynamic_smem_size;\n"
                     "add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6;\n"
                     "mad.lo.u32 %r3, %r9, 1000, %r3; add.u32 %r3, %r3, %r11;\n"
                     "mov.b64 %d5, {%r3, %r12}; st.global.u64 [%d1], %d5;";
  std::string text = smallKernel(body, variables);
  expectValidPtx(text);
  SmallRun run(text, 32, {0}, 1, {}, 512);
  EXPECT_EQ(run.report.messages(), "");
  for (uint64_t t : {0u, 5u, 31u})
    EXPECT_EQ(run[t], (30 + 20 + 9 + 1 + 256 * 1000 + t) | uint64_t(512) << 32);
}

TEST(EmuMemory, KeepsLocalVariablesApart) {
  std::string text =
      smallKernel(".local .align 8 .b8 depot[16]; mov.b64 %d4, depot; cvta.local.u64 %d5, %d4;\n"
                  "st.local.u32 [%d4+4], %r0; bar.sync 0; ld.u32 %r3, [%d5+4];\n"
                  "st.global.u32 [%d1], %r3;");
  expectValidPtx(text);
  SmallRun run(text, 64);
  EXPECT_EQ(run.report.messages(), "");
  for (uint64_t t = 0; t < 64; ++t)
    EXPECT_EQ(run[t], t);
}

TEST(EmuMemory, TellsSharedFromGlobal) {
  std::string text =
      smallKernel(".shared .align 8 .b8 here[512]; mov.u64 %d4, here; cvta.shared.u64 %d5, %d4;\n"
                  "isspacep.shared %p1, %d5; isspacep.global %p2, %d5; isspacep.global %p3, %d0;\n"
                  "mad.wide.u32 %d6, %r0, 8, %d5; ld.global.u64 %d7, [%d0]; st.u64 [%d6], %d7;\n"
                  "ld.u64 %d7, [%d6]; selp.u64 %d8, 1, 0, %p1; @%p2 add.u64 %d8, %d8, 2;\n"
                  "@%p3 add.u64 %d8, %d8, 4; add.u64 %d7, %d7, %d8; st.global.u64 [%d1], %d7;");
  expectValidPtx(text);
  SmallRun run(text, 64, {100});
  EXPECT_EQ(run.report.messages(), "");
  EXPECT_EQ(run[63], 105u);
}

TEST(EmuMemory, BranchesThroughATable) {
  SmallRun run(smallKernel("and.b32 %r3, %r0, 3; targets: .branchtargets A, B, C, B;\n"
                           "brx.idx %r3, targets;\nA: mov.u32 %r4, 10; bra end;\n"
                           "B: mov.u32 %r4, 20; bra end;\nC: mov.u32 %r4, 30;\n"
                           "end: st.global.u32 [%d1], %r4;"),
               32);
  EXPECT_EQ(run.report.messages(), "");
  EXPECT_EQ(run[0], 10u);
  EXPECT_EQ(run[1], 20u);
  EXPECT_EQ(run[2], 30u);
  EXPECT_EQ(run[3], 20u);
}

TEST(EmuMemory, ScopesRegistersAndLabels) {
  SmallRun run(smallKernel("{ .reg .b32 t; mov.u32 t, 7; bra done; mov.u32 t, 8; done: mov.u32 "
                           "%r3, t; } { .reg .b32 t; mov.u32 t, 9; bra done; mov.u32 t, 1; done: "
                           "add.u32 %r3, %r3, t; } st.global.u32 [%d1], %r3;"),
               1);
  EXPECT_EQ(run[0], 16u);
}

TEST(EmuMemory, CopiesAsynchronously) {
  // Sizes 4, 8, 16 with and without zero fill: 16 bytes a thread.
  std::string text = smallKernel(
      ".shared .align 16 .b8 buffer[1024]; mov.u32 %r3, buffer; mad.lo.u32 %r4, %r0, 32, %r3;\n"
      "shl.b32 %r5, %r0, 5; cvt.u64.u32 %d4, %r5; add.s64 %d5, %d2, %d4;\n"
      "cp.async.cg.shared.global [%r4], [%d5], 16, 12;\n"
      "cp.async.ca.shared.global [%r4+16], [%d5+16], 8;\n"
      "cp.async.ca.shared.global.L2::128B [%r4+24], [%d5+24], 4, 0;\n"
      "cp.async.ca.shared::cta.global [%r4+28], [%d5+28], 4;\n"
      "cp.async.wait_all;\n"
      "ld.shared.v2.u64 {%d6, %d7}, [%r4]; ld.shared.v2.u64 {%d8, %d9}, [%r4+16];\n"
      "add.s64 %d10, %d3, %d4; st.global.v2.u64 [%d10], {%d6, %d7};\n"
      "st.global.v2.u64 [%d10+16], {%d8, %d9};");
  expectValidPtx(text);
  // 8 threads of 32 bytes work on 32 elements.
  std::string eight = text;
  size_t at = eight.find(".shared .align");
  eight.insert(at, "setp.ge.u32 %p1, %r0, 8; @%p1 ret;\n");
  for (const Mode &mode : allModes()) {
    LaunchOptions options;
    options.order = mode.order;
    options.asyncMode = mode.async;
    options.seed = mode.seed;
    SmallRun run(eight, 32, {0x1111111122222222, 0x3333333344444444, 5, 0x7777777788888888}, 1,
                 options);
    EXPECT_EQ(run.report.messages(), "");
    EXPECT_EQ(run[28], 0x1111111122222222u);
    EXPECT_EQ(run[29], 0x44444444u);
    EXPECT_EQ(run[30], 5u);
    EXPECT_EQ(run[31], 0x7777777700000000u);
  }
}

TEST(EmuMemory, CarriesOutAtomics) {
  struct Case {
    std::string op, type, value;
    uint64_t start, end;
  };
  auto f = [](float x) { return uint64_t(std::bit_cast<uint32_t>(x)); };
  auto d = [](double x) { return std::bit_cast<uint64_t>(x); };
  // 64 threads with %r0 = 0..63, as number %f1 and %d4.
  const Case cases[] = {
      {"add", "u32", "%r0", 5, 5 + 2016},
      {"add", "u64", "%d4", ~0ull, 2015},
      {"add", "f32", "%f1", f(0.5f), f(2016.5f)},
      {"add", "f64", "%d5", d(0.25), d(2016.25)},
      {"max", "u32", "%r0", 17, 63},
      {"max", "s32", "%r4", uint32_t(-100), 0},
      {"min", "s32", "%r4", 0, uint32_t(-63)},
      {"min", "u64", "%d4", 9, 0},
      {"and", "b32", "%r5", 0xff, 0xc0},
      {"or", "b32", "%r0", 0x100, 0x13f},
      {"xor", "b32", "%r0", 0x100, 0x100},
      {"inc", "u32", "%r6", 0, 64 % 11},
  };
  for (const Case &c : cases)
    for (const char *op : {"atom", "red"}) {
      std::string text =
          smallKernel("neg.s32 %r4, %r0; not.b32 %r5, %r0; mov.u32 %r6, 10; cvt.u64.u32 %d4, %r0;\n"
                      "cvt.rn.f32.u32 %f1, %r0; cvt.rn.f64.u32 %d5, %r0;\n" +
                      std::string(op) + ".global." + c.op + "." + c.type +
                      (op == std::string("atom") ? (c.type[1] == '6'   ? " %d6,"
                                                    : c.type[0] == 'f' ? " %f2,"
                                                                       : " %r7,")
                                                 : "") +
                      " [%d3], " + c.value + ";");
      // The first element of out is 0 at the start; bring it to c.start first.
      GlobalMemory memory;
      Buffer<uint64_t> in(memory, 64, "in"), out(memory, 64, "out");
      out[0] = c.start;
      ParamBuilder params;
      params.add(in.data).add(out.data);
      Expected<LaunchReport> report =
          launch(moduleOf(text), "k", {1, 1, 1}, {64, 1, 1}, 0, params.bytes(), memory, pool());
      ASSERT_TRUE(report.ok());
      EXPECT_EQ(report->messages(), "") << text;
      EXPECT_EQ(out[0], c.end) << op << c.op << c.type;
    }
}

TEST(EmuMemory, SwapsAtomically) {
  // A lock by cas and exch around a plain increment, with the fences that it needs.
  std::string text = smallKernel("try: atom.global.cas.b32 %r3, [%d3], 0, 1; setp.ne.u32 %p1, %r3, "
                                 "0; @%p1 bra try; membar.gl; ld.global.u32 %r4, [%d3+8];\n"
                                 "add.u32 %r4, %r4, 1; st.global.u32 [%d3+8], %r4; membar.gl;\n"
                                 "atom.global.exch.b32 %r3, [%d3], 0;");
  for (const Mode &mode : allModes()) {
    LaunchOptions options;
    options.order = mode.order;
    options.seed = mode.seed;
    SmallRun run(text, 64, {0}, 4, options);
    EXPECT_EQ(run.report.messages(), "");
    EXPECT_EQ(run[1], 256u);
    EXPECT_EQ(run[0], 0u);
  }
}

TEST(EmuMemory, FollowsFlagsBetweenBlocks) {
  // Block 0 stores a value and raises a flag; block 1 waits for the flag and reads the value.
  auto text = [](const std::string &raise, const std::string &look) {
    return smallKernel("setp.ne.u32 %p3, %r0, 0; @%p3 ret; mov.u32 %r3, %ctaid.x;\n"
                       "setp.ne.u32 %p1, %r3, 0; @%p1 bra second;\n"
                       "mov.u32 %r4, 77; st.global.u32 [%d3+8], %r4; " +
                       raise + " bra end;\nsecond: " + look +
                       " setp.eq.u32 %p2, %r5, 0; @%p2 bra second; ld.global.u32 %r6, [%d3+8];\n"
                       "st.global.u32 [%d3+16], %r6;\nend:");
  };
  const std::pair<std::string, std::string> good[] = {
      {"st.release.gpu.global.u32 [%d3], %r4;", "ld.acquire.gpu.global.u32 %r5, [%d3];"},
      {"fence.acq_rel.gpu; st.relaxed.gpu.global.u32 [%d3], %r4;",
       "ld.relaxed.gpu.global.u32 %r5, [%d3]; fence.acq_rel.gpu;"},
      {"membar.gl; st.volatile.global.u32 [%d3], %r4;",
       "ld.volatile.global.u32 %r5, [%d3]; membar.gl;"},
      {"fence.acq_rel.gpu; atom.exch.global.b32 %r7, [%d3], 1;",
       "ld.acquire.sys.global.u32 %r5, [%d3];"}};
  const std::pair<std::string, std::string> bad[] = {
      {"st.relaxed.gpu.global.u32 [%d3], %r4;", "ld.acquire.gpu.global.u32 %r5, [%d3];"},
      {"st.release.gpu.global.u32 [%d3], %r4;", "ld.relaxed.gpu.global.u32 %r5, [%d3];"},
      {"st.release.cta.global.u32 [%d3], %r4;", "ld.acquire.gpu.global.u32 %r5, [%d3];"},
      {"st.release.gpu.global.u32 [%d3], %r4;", "ld.global.u32 %r5, [%d3];"},
      {"st.global.u32 [%d3], %r4; membar.gl;", "ld.volatile.global.u32 %r5, [%d3]; membar.gl;"}};
  for (const auto &[raise, look] : good) {
    std::string ptx = text(raise, look);
    expectValidPtx(ptx);
    SmallRun run(ptx, 32, {0}, 2);
    EXPECT_EQ(run.report.messages(), "");
    EXPECT_EQ(run[2], 77u);
  }
  for (const auto &[raise, look] : bad) {
    SmallRun run(text(raise, look), 32, {0}, 2);
    EXPECT_TRUE(has(run.report, FindingKind::GlobalRace)) << raise << look;
  }
}

TEST(EmuMemory, NamesMisalignedAccesses) {
  SmallRun run(smallKernel("ld.global.v2.b32 {%r3, %r4}, [%d2+4]; st.global.u32 [%d1], %r3;"), 32);
  ASSERT_EQ(run.report.findings.size(), 1u);
  EXPECT_EQ(run.report.findings[0].kind, FindingKind::Misaligned);
  EXPECT_NE(run.report.findings[0].text.find("ld.global.v2.b32"), std::string::npos);
}

TEST(EmuMemory, NamesMisalignedCopiesOfZerosToo) {
  for (const auto &[operands, isWrong] : {std::pair("[%r3], [%d2], 16, 0", false),
                                          {"[%r3], [%d2+8], 16, 0", true},
                                          {"[%r3+8], [%d2], 16, 0", true},
                                          {"[%r3], [%d2+8], 16, %p1", true},
                                          {"[%r3], [%d2+4], 16, 4", true},
                                          {"[%r3], [%d2+16], 16, %p1", false}}) {
    std::string text = smallKernel(
        ".shared .align 16 .b8 buffer[64]; mov.u32 %r3, buffer; setp.eq.u32 %p1, %r0, %r0;\n"
        "setp.ne.u32 %p2, %r0, 0; @%p2 ret; cp.async.cg.shared.global " +
        std::string(operands) + "; cp.async.wait_all;");
    SmallRun run(text, 32);
    EXPECT_EQ(has(run.report, FindingKind::Misaligned), isWrong) << operands;
    EXPECT_EQ(run.report.findings.size(), isWrong) << operands << "\n" << run.report.messages();
  }
}

TEST(EmuMemory, NamesSharedBytesOutOfBounds) {
  SmallRun run(smallKernel(".shared .align 4 .b8 buffer[64]; mov.u32 %r3, buffer;\n"
                           "mad.lo.u32 %r3, %r0, 4, %r3; st.shared.u32 [%r3], %r0;"),
               32);
  ASSERT_EQ(run.report.findings.size(), 1u);
  EXPECT_EQ(run.report.findings[0].kind, FindingKind::OutOfBounds);
}

} // namespace
} // namespace gemma::emu::test
