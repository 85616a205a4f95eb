// Whole kernels, right in every order and mode, and with one fault each, which must be found.
#include "test/unit/emu/EmuHarness.h"

#include "runtime/support/BFloat16.h"

#include <cmath>

namespace gemma::emu::test {
namespace {

/// `text` with the n-th occurrence (from 0) of `from` replaced.
std::string replaced(std::string text, const std::string &from, const std::string &to, int n = 0) {
  size_t at = text.find(from);
  for (; n > 0 && at != std::string::npos; --n)
    at = text.find(from, at + 1);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

class Gemm : public ::testing::Test {
protected:
  static constexpr uint32_t M = 128, N = 64, K = 96;

  void SetUp() override {
    for (uint32_t i = 0; i < M * K; ++i)
      x[i] = f32ToBf16(float(int(i * 37 % 201) - 100) / 64.0f);
    for (uint32_t i = 0; i < N * K; ++i)
      w[i] = f32ToBf16(float(int(i * 53 % 173) - 86) / 128.0f);
  }

  LaunchReport run(const std::string &ptx, const LaunchOptions &options, uint32_t k = K) {
    std::fill(d.data, d.data + M * N, NAN);
    ParamBuilder params;
    params.add(x.data).add(w.data).add(d.data).add(N).add(k);
    Expected<LaunchReport> report = launch(moduleOf(ptx), "gemm", {N / 32, M / 64, 1}, {128, 1, 1},
                                           9216, params.bytes(), memory, pool(), options);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return std::move(*report);
  }

  double worstError(uint32_t k = K) {
    double worst = 0;
    for (uint32_t i = 0; i < M; ++i)
      for (uint32_t j = 0; j < N; ++j) {
        double sum = 0;
        for (uint32_t q = 0; q < k; ++q)
          sum += double(bf16ToF32(x[i * k + q])) * double(bf16ToF32(w[j * k + q]));
        double error = std::fabs(sum - double(d[i * N + j]));
        worst = std::isnan(error) ? INFINITY : std::max(worst, error);
      }
    return worst;
  }

  /// Whether the checks find the fault in every mode; the kinds that they call it.
  std::set<FindingKind> faults(const std::string &ptx) {
    std::set<FindingKind> kinds;
    for (const Mode &mode : allModes()) {
      LaunchOptions options;
      options.order = mode.order;
      options.asyncMode = mode.async;
      options.seed = mode.seed;
      LaunchReport report = run(ptx, options);
      EXPECT_FALSE(report.findings.empty()) << int(mode.order) << int(mode.async);
      for (const Finding &finding : report.findings)
        kinds.insert(finding.kind);
    }
    return kinds;
  }

  GlobalMemory memory;
  Buffer<uint16_t> x{memory, M * K, "x", true}, w{memory, N * K, "w", true};
  Buffer<float> d{memory, M * N, "d"};
  std::string ptx = readPtx("gemm-bf16.ptx");
};

TEST_F(Gemm, IsRightInEveryMode) {
  for (const Mode &mode : allModes())
    for (uint32_t k : {16u, 32u, 48u, K}) {
      LaunchOptions options;
      options.order = mode.order;
      options.asyncMode = mode.async;
      options.seed = mode.seed;
      LaunchReport report = run(ptx, options, k);
      EXPECT_EQ(report.messages(), "");
      EXPECT_LT(worstError(k), 1e-4) << k;
      EXPECT_EQ(report.counters.mmaFlops, 2ull * M * N * k);
    }
}

TEST_F(Gemm, IsRightWithoutChecks) {
  LaunchOptions options;
  options.checkBounds = options.checkRaces = false;
  LaunchReport report = run(ptx, options);
  EXPECT_LT(worstError(), 1e-4);
}

TEST_F(Gemm, IsRightWithTheRoundingOfDevices) {
  // The numbers of the other tests have sums that f32 holds exactly.
  for (uint32_t i = 0; i < M * K; ++i)
    x[i] = f32ToBf16(bf16ToF32(x[i]) / 3);
  for (uint32_t i = 0; i < N * K; ++i)
    w[i] = f32ToBf16(bf16ToF32(w[i]) * 0x1p-5f * float(1 + i % 37));
  run(ptx, {});
  std::vector<float> nearest(d.data, d.data + M * N);
  LaunchOptions options;
  options.mmaRounding = MmaRounding::Truncated;
  EXPECT_EQ(run(ptx, options).messages(), "");
  EXPECT_LT(worstError(), 1e-4);
  EXPECT_NE(nearest, std::vector<float>(d.data, d.data + M * N));
}

TEST_F(Gemm, IsValidPtx) { expectValidPtx(ptx); }

TEST_F(Gemm, CountsItsTraffic) {
  LaunchOptions options;
  options.counters = true;
  Counters counters = run(ptx, options).counters;
  // Each block reads its 64 rows of x and 32 rows of w once, and writes 64 x 32 floats.
  uint64_t blocks = M / 64 * (N / 32);
  EXPECT_EQ(counters.globalReadBytes, blocks * (64 + 32) * K * 2);
  EXPECT_EQ(counters.globalWriteBytes, uint64_t(M) * N * 4);
  EXPECT_EQ(counters.globalWideBytes, counters.globalReadBytes);
  // Copies take whole 32-byte sectors, and so do the stores of four lanes of 8 bytes.
  EXPECT_EQ(counters.sectorEfficiency(), 1.0);
  EXPECT_EQ(counters.sharedWavefronts, counters.sharedIdealWavefronts);
  // Two chunks of 3 KiB are on their way at each wait but the last.
  ASSERT_EQ(counters.bytesInFlight.size(), blocks * (K / 16));
  EXPECT_EQ(counters.bytesInFlight[0], 6144u);
  EXPECT_EQ(counters.bytesInFlight[K / 16 - 1], 3072u);
  EXPECT_EQ(counters.bytesInFlightP10(), 3072u);
  EXPECT_EQ(counters.blockBalance(), 1.0);
  EXPECT_EQ(counters.barriers, blocks * (K / 16));
}

TEST_F(Gemm, CountsBankConflicts) {
  // Without the exchange of halves rows 0 and 4 of a matrix lie in the same banks.
  std::string plain = replaced(ptx, "xor.b32 \t%r11, %r11, %r10;", "mov.u32 \t%r11, %r10;");
  plain = replaced(plain, "xor.b32 \t%r17, %r17, %r18;", "", 0);
  plain = replaced(plain, "xor.b32 \t%r17, %r17, %r18;", "", 0);
  LaunchOptions options;
  options.counters = true;
  LaunchReport report = run(plain, options);
  EXPECT_EQ(report.messages(), "");
  EXPECT_LT(worstError(), 1e-4);
  // Loads take twice their ideal, the copies into shared memory are not among them.
  EXPECT_EQ(report.counters.wavefrontExcess(), 1.0);
}

TEST_F(Gemm, FindsADroppedWait) {
  std::set<FindingKind> kinds = faults(replaced(ptx, "cp.async.wait_group \t1;", ""));
  EXPECT_TRUE(kinds.count(FindingKind::AsyncNotWaited));
}

TEST_F(Gemm, FindsAWaitForTooFewGroups) {
  std::set<FindingKind> kinds =
      faults(replaced(ptx, "cp.async.wait_group \t1;", "cp.async.wait_group \t2;"));
  EXPECT_TRUE(kinds.count(FindingKind::AsyncNotWaited));
}

TEST_F(Gemm, FindsADroppedBarrier) {
  std::set<FindingKind> kinds = faults(replaced(ptx, "bar.sync \t0;", ""));
  EXPECT_TRUE(kinds.count(FindingKind::SharedRace) || kinds.count(FindingKind::AsyncNotWaited));
}

TEST_F(Gemm, FindsABarrierBeforeTheWait) {
  std::string swapped = replaced(ptx, "cp.async.wait_group \t1;", "bar.sync \t0;");
  swapped = replaced(swapped, "bar.sync \t0;", "cp.async.wait_group \t1;", 1);
  std::set<FindingKind> kinds = faults(swapped);
  EXPECT_TRUE(kinds.count(FindingKind::SharedRace) || kinds.count(FindingKind::AsyncNotWaited));
}

TEST_F(Gemm, FindsARingThatIsTooShort) {
  // Two stages: the next chunk lands on the one that is being read.
  std::string text = ptx;
  for (int i = 0; i < 2; ++i)
    text = replaced(text, ", 9216;", ", 6144;", 0);
  text = replaced(text, "add.u32 \t%r22, %r22, 3072;\n\tsetp.lt.u32 \t%p3, %r21, 2;",
                  "add.u32 \t%r22, %r22, 3072;\n\tsetp.eq.u32 \t%p4, %r22, 6144;\n\t"
                  "selp.b32 \t%r22, 0, %r22, %p4;\n\tsetp.lt.u32 \t%p3, %r21, 2;");
  std::set<FindingKind> kinds = faults(text);
  EXPECT_TRUE(kinds.count(FindingKind::SharedRace) || kinds.count(FindingKind::AsyncNotWaited));
}

TEST_F(Gemm, FindsAReadBeyondTheRing) {
  std::set<FindingKind> kinds = faults(replaced(ptx, "[%r28+512]", "[%r28+9216]"));
  EXPECT_EQ(kinds, std::set{FindingKind::OutOfBounds});
}

TEST_F(Gemm, FindsAReadOfWhatNobodyCopied) {
  std::set<FindingKind> kinds =
      faults(replaced(ptx, "setp.lt.u32 \t%p1, %r3, 64;", "setp.lt.u32 \t%p1, %r3, 48;"));
  EXPECT_EQ(kinds, std::set{FindingKind::UnwrittenShared});
}

TEST_F(Gemm, FindsAMisalignedMatrix) {
  std::set<FindingKind> kinds = faults(replaced(ptx, "[%r28+512]", "[%r28+504]"));
  EXPECT_EQ(kinds, std::set{FindingKind::Misaligned});
}

TEST_F(Gemm, FindsAStoreToWeights) {
  std::set<FindingKind> kinds =
      faults(replaced(ptx, "add.s64 \t%rd6, %rd3, %rd6;", "add.s64 \t%rd6, %rd1, %rd6;"));
  EXPECT_TRUE(kinds.count(FindingKind::ReadOnlyWrite));
}

class SplitSum : public ::testing::Test {
protected:
  static constexpr uint32_t n = 3000, blocks = 6;
  void SetUp() override {
    for (uint32_t i = 0; i < n; ++i)
      x[i] = float(int(i % 17) - 5);
  }
  LaunchReport run(const std::string &text, const LaunchOptions &options) {
    y[0] = NAN;
    ticket[0] = 0;
    std::fill(partials.data, partials.data + blocks, NAN);
    ParamBuilder params;
    params.add(x.data).add(y.data).add(partials.data).add(ticket.data).add(n);
    Expected<LaunchReport> report = launch(moduleOf(text), "split_sum", {blocks, 1, 1}, {128, 1, 1},
                                           0, params.bytes(), memory, pool(), options);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return std::move(*report);
  }
  std::set<FindingKind> faults(const std::string &text) {
    std::set<FindingKind> kinds;
    for (const Mode &mode : allModes()) {
      LaunchOptions options;
      options.order = mode.order;
      options.seed = mode.seed;
      LaunchReport report = run(text, options);
      EXPECT_FALSE(report.findings.empty());
      for (const Finding &finding : report.findings)
        kinds.insert(finding.kind);
    }
    return kinds;
  }
  GlobalMemory memory;
  Buffer<float> x{memory, n, "x", true}, y{memory, 1, "y"}, partials{memory, blocks, "partials"};
  Buffer<uint32_t> ticket{memory, 1, "ticket"};
  std::string ptx = readPtx("split-sum.ptx");
};

TEST_F(SplitSum, IsRightInEveryOrder) {
  float expected = 0;
  for (uint32_t i = 0; i < n; ++i)
    expected += x[i];
  for (const Mode &mode : allModes()) {
    LaunchOptions options;
    options.order = mode.order;
    options.seed = mode.seed;
    LaunchReport report = run(ptx, options);
    EXPECT_EQ(report.messages(), "");
    EXPECT_EQ(y[0], expected);
    EXPECT_EQ(ticket[0], blocks);
  }
}

TEST_F(SplitSum, IsValidPtx) { expectValidPtx(ptx); }

TEST_F(SplitSum, FindsADroppedReleaseFence) {
  EXPECT_TRUE(faults(replaced(ptx, "membar.gl;", "")).count(FindingKind::GlobalRace));
}

TEST_F(SplitSum, FindsADroppedAcquireFence) {
  EXPECT_TRUE(faults(replaced(ptx, "fence.acq_rel.gpu;", "")).count(FindingKind::GlobalRace));
}

TEST_F(SplitSum, FindsAFenceOfTheBlockOnly) {
  EXPECT_TRUE(faults(replaced(ptx, "membar.gl;", "membar.cta;")).count(FindingKind::GlobalRace));
}

TEST_F(SplitSum, TakesAnAcquireReleaseAtomicForFences) {
  std::string text = replaced(ptx, "membar.gl;", "");
  text = replaced(text, "fence.acq_rel.gpu;", "");
  text = replaced(text, "atom.global.add.u32", "atom.acq_rel.gpu.global.add.u32");
  EXPECT_EQ(run(text, {}).messages(), "");
}

TEST_F(SplitSum, FindsAStoreInPlaceOfTheAtomic) {
  std::string text = replaced(ptx, "atom.global.add.u32 \t%r12, [%rd4], 1;",
                              "ld.global.u32 \t%r12, [%rd4]; add.u32 %r13, %r12, 1; "
                              "st.global.u32 [%rd4], %r13;");
  EXPECT_TRUE(faults(text).count(FindingKind::GlobalRace));
}

TEST_F(SplitSum, FindsADroppedBarrier) {
  EXPECT_EQ(faults(replaced(ptx, "bar.sync \t0;", "", 0)).count(FindingKind::SharedRace), 1u);
  EXPECT_EQ(faults(replaced(ptx, "bar.sync \t0;", "", 1)).count(FindingKind::SharedRace), 1u);
}

TEST_F(SplitSum, FindsABarrierThatSomePassBy) {
  std::string text = replaced(ptx, "@%p4 bra \t$arrived;", "@%p4 bra \t$done;");
  EXPECT_EQ(faults(text), std::set{FindingKind::DivergentBarrier});
}

TEST_F(SplitSum, FindsAShuffleThatSomePassBy) {
  std::string text = replaced(ptx, "bar.warp.sync \t-1;",
                              "@!%p1 bra $done; "
                              "setp.eq.u32 %p1, %r2, 40; @%p1 bra $arrived;");
  std::set<FindingKind> kinds = faults(text);
  EXPECT_TRUE(kinds.count(FindingKind::DivergentBarrier) ||
              kinds.count(FindingKind::DivergentWarp));
}

TEST_F(SplitSum, StopsALoopWithoutEnd) {
  std::string text = replaced(ptx, "add.u32 \t%r5, %r5, %r6;", "");
  LaunchOptions options;
  options.instructionLimit = 200000;
  LaunchReport report = run(text, options);
  EXPECT_FALSE(report.completed);
  EXPECT_TRUE(has(report, FindingKind::NoProgress)) << report.messages();
}

} // namespace
} // namespace gemma::emu::test
