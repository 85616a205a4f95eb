// The assembler's report, and what is refused.
#include "codegen/gpu/Ptxas.h"

#include <gtest/gtest.h>

namespace gemma::codegen {
namespace {

TEST(Ptxas, ReadsTheReport) {
  auto report =
      parsePtxasReport("ptxas info    : 0 bytes gmem\n"
                       "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
                       "ptxas info    : Function properties for k\n"
                       "    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n"
                       "ptxas info    : Used 42 registers, used 1 barriers, 8 bytes cumulative "
                       "stack size, 256 bytes "
                       "smem, 376 bytes cmem[0]\n");
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->registers, 42);
  EXPECT_EQ(report->stackBytes, 8);
  EXPECT_EQ(report->spillStores, 12);
  EXPECT_EQ(report->spillLoads, 16);
  EXPECT_EQ(report->staticShared, 256);
  EXPECT_FALSE(parsePtxasReport("ptxas fatal   : nothing\n").ok());
}

constexpr const char *head = ".version 8.0\n.target sm_80\n.address_size 64\n"
                             ".visible .entry k(.param .u64 p) {\n";

TEST(Ptxas, AssemblesAndRefusesLocalMemory) {
  auto ptxas = findPtxas();
  if (!ptxas)
    GTEST_SKIP() << ptxas.error().message;
  auto good = assemble(*ptxas, "k", std::string(head) + "ret;\n}\n", "sm_80");
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->cubin.substr(1, 3), "ELF");

  // An array that is indexed by a value from memory cannot be in registers.
  std::string local = std::string(head) +
                      ".local .align 4 .b8 a[64];\n.reg .b64 %d<6>;\n.reg .b32 %r<3>;\n"
                      "ld.param.u64 %d0, [p];\ncvta.to.global.u64 %d1, %d0;\n"
                      "ld.global.u64 %d2, [%d1];\nmov.u64 %d3, a;\nadd.u64 %d4, %d3, %d2;\n"
                      "st.local.u32 [%d4], 1;\nld.local.u32 %r0, [a+4];\n"
                      "st.global.u32 [%d1], %r0;\nret;\n}\n";
  auto refused = assemble(*ptxas, "k", local, "sm_80");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("kernel k for sm_80 has local memory"), std::string::npos)
      << refused.error().message;

  auto broken = assemble(*ptxas, "k", "no PTX", "sm_80");
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("ptxas fails on kernel k for sm_80"), std::string::npos);
}

} // namespace
} // namespace gemma::codegen
