// Which code of an artifact is taken for a device, and what of it the device must be able to give.
#include "FakeCuda.h"

#include "runtime/device/cuda/Kernels.h"

#include <gtest/gtest.h>

using namespace gemma;
using namespace gemma::cuda;
using gemma::test::contains;
using gemma::test::FakeCuda;
using gemma::test::startsWith;

namespace {

std::string ptx(const std::string &target, const std::string &body = "ret;") {
  return ".version 7.0\n.target " + target + "\n.address_size 64\n.visible .entry k()\n" +
         ".maxntid 256, 1, 1\n{\n" + body + "\n}\n";
}

/// A kernel's code for several architectures.
class Code {
public:
  Code &machine(const std::string &target) {
    return add(false, target, "FAKE CUBIN " + target + "\n" + ptx("sm_80"));
  }
  Code &text(const std::string &target, const std::string &body = "ret;") {
    return add(true, "ptx", ptx(target, body));
  }
  Code &add(bool isPtx, const std::string &target, const std::string &bytes) {
    kept.push_back({isPtx, target, bytes});
    return *this;
  }

  /// The code that was taken, or the error.
  std::string load(KernelNeed need = {"k", 128, 0}) const {
    std::vector<KernelImage> images;
    for (const Kept &one : kept)
      images.push_back({one.ptx, one.target, "k", one.bytes});
    auto device = Device::open(0);
    if (!device)
      return device.error().message;
    auto loaded = loadKernels(*device, images, std::span(&need, 1));
    return loaded ? loaded->code : loaded.error().message;
  }

private:
  struct Kept {
    bool ptx;
    std::string target, bytes;
  };
  std::vector<Kept> kept;
};

TEST(CudaArchitecture, Names) {
  auto sm86 = Architecture::parse("sm_86");
  ASSERT_TRUE(sm86);
  EXPECT_EQ(sm86->major, 8);
  EXPECT_EQ(sm86->minor, 6);
  auto sm120 = Architecture::parse("sm_120");
  ASSERT_TRUE(sm120);
  EXPECT_EQ(sm120->major, 12);
  EXPECT_EQ(sm120->minor, 0);
  EXPECT_TRUE(Architecture::parse("sm_90a")->specific);
  for (const char *wrong : {"", "sm_", "sm_8", "sm_x0", "sm_80b", "80", "sm_-80", "sm_80 "})
    EXPECT_FALSE(Architecture::parse(wrong)) << wrong;
}

TEST(CudaArchitecture, WhatRunsWhere) {
  auto arch = [](const char *name) { return *Architecture::parse(name); };
  EXPECT_TRUE(arch("sm_80").runsOn(8, 0));
  EXPECT_TRUE(arch("sm_80").runsOn(8, 9));
  EXPECT_FALSE(arch("sm_86").runsOn(8, 0));
  EXPECT_FALSE(arch("sm_80").runsOn(9, 0));
  EXPECT_TRUE(arch("sm_90a").runsOn(9, 0));
  EXPECT_FALSE(arch("sm_100a").runsOn(10, 3));
  EXPECT_TRUE(arch("sm_80").compilesFor(12, 0));
  EXPECT_FALSE(arch("sm_90").compilesFor(8, 9));
  EXPECT_FALSE(arch("sm_90a").compilesFor(10, 0));
}

TEST(CudaKernels, TheNewestCodeThatRuns) {
  Code all = Code().text("sm_80").machine("sm_80").machine("sm_86").machine("sm_90");
  FakeCuda fake("cc=9.0");
  EXPECT_EQ(all.load(), "sm_90");
  fake.configure("cc=8.0");
  EXPECT_EQ(all.load(), "sm_80");
  fake.configure("cc=8.9");
  EXPECT_EQ(all.load(), "sm_86");
  fake.configure("cc=12.0");
  EXPECT_EQ(all.load(), "PTX for sm_80");
  fake.configure("cc=7.5");
  EXPECT_EQ(all.load(), "cuda:0 (Fake GPU): no code for compute capability 7.5: the artifact has "
                        "\"PTX for sm_80\", \"sm_80\", \"sm_86\", \"sm_90\"; with gemma-compile "
                        "--target ptx-sm_80 it runs on 8.0 and newer");
  fake.configure("");
  EXPECT_EQ(Code().load(), "cuda:0 (Fake GPU): no code for compute capability 9.0: the artifact "
                           "has none for CUDA devices; with gemma-compile --target ptx-sm_80 it "
                           "runs on 8.0 and newer");
  EXPECT_EQ(fake.live(), 0u);
}

// Machine code of a newer compiler than the driver knows: PTX may still do.
TEST(CudaKernels, TheNextCodeWhereTheDriverRefusesOne) {
  FakeCuda fake("cc=9.0,driver=12040");
  Code code = Code().add(false, "sm_90",
                         "\x7f"
                         "ELF of some future");
  EXPECT_EQ(code.load(), "cuda:0 (Fake GPU): expected code that the driver, of CUDA 12.4, takes, "
                         "and it takes none that the artifact has for the device:\n"
                         "sm_90: kernel k: cuda:0 (Fake GPU): cuModuleLoadDataEx: "
                         "CUDA_ERROR_INVALID_IMAGE (a text of the fake driver)\n"
                         "a driver of a newer CUDA may do, and so may PTX: gemma-compile --target "
                         "sm_90,ptx-sm_80");
  EXPECT_EQ(code.text("sm_80").load(), "PTX for sm_80");
  // Whatever the driver calls it.
  Code both = Code().machine("sm_90").text("sm_80");
  for (const char *result : {"200", "209", "300"}) {
    fake.configure("cc=9.0,fail=cuModuleLoadDataEx:1:" + std::string(result));
    EXPECT_EQ(both.load(), "PTX for sm_80") << result;
  }
  // PTX of a version that it does not know: only a newer driver helps.
  fake.configure("cc=9.0,fail=cuModuleLoadDataEx:1:209,fail=cuModuleLoadDataEx:2:222");
  std::string refused = both.load();
  EXPECT_PRED2(contains, refused, "\nPTX for sm_80: kernel k: ");
  EXPECT_PRED2(contains, refused, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
  EXPECT_TRUE(refused.ends_with("\na driver of a newer CUDA may do")) << refused;
  fake.configure("cc=9.0,fail=cuModuleLoadDataEx:1:2");
  EXPECT_PRED2(contains, both.load(), "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(fake.live(), 0u);
}

TEST(CudaKernels, TheCompilersMessagesAreShown) {
  FakeCuda fake;
  std::string error = Code().text("sm_80", "frobnicate.u32 %r1;").load();
  EXPECT_PRED2(contains, error,
               "kernel k: cuda:0 (Fake GPU): cuModuleLoadDataEx: "
               "CUDA_ERROR_INVALID_PTX (a text of the fake driver)\n");
  EXPECT_PRED2(contains, error, "frobnicate");
  EXPECT_EQ(fake.live(), 0u);
}

TEST(CudaKernels, LimitsOfTheDevice) {
  FakeCuda fake("shared=101376,threads=512");
  Code code = Code().text("sm_80");
  EXPECT_EQ(code.load({"k", 1024, 0}),
            "kernel k: needs 1024 threads a block, cuda:0 (Fake GPU) gives at most 512");
  EXPECT_EQ(code.load({"k", 128, 101377}), "kernel k: needs 101377 bytes of shared memory a block, "
                                           "cuda:0 (Fake GPU) gives at most 101376");
  // .maxntid is 256.
  EXPECT_PRED2(startsWith, code.load({"k", 512, 0}),
               "kernel k: needs 512 threads a block, its "
               "registers leave room for 256 on ");
  // Shared memory of the kernel's own counts as well.
  Code withShared = Code().text("sm_80", ".shared .align 4 .b8 own[1024];\nret;");
  EXPECT_EQ(withShared.load({"k", 128, 100352}), "PTX for sm_80");
  EXPECT_PRED2(contains, withShared.load({"k", 128, 100353}), "needs 101377 bytes");
  EXPECT_EQ(fake.live(), 0u);
}

TEST(CudaKernels, EveryEntryPoint) {
  FakeCuda fake;
  Code code = Code().text("sm_80");
  for (const char *entry :
       {"cuModuleLoadDataEx", "cuModuleGetFunction", "cuFuncGetAttribute", "cuFuncSetAttribute"}) {
    fake.configure("fail=" + std::string(entry) + ":1:1");
    EXPECT_PRED2(startsWith, code.load({"k", 128, 60000}),
                 "kernel k: cuda:0 (Fake GPU): " + std::string(entry) +
                     ": CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(fake.live(), 0u) << entry;
  }
}

} // namespace
