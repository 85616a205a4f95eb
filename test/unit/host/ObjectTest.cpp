// The shared object of a module: what it may hold, and what is written beside it.
#include "HostKernelHarness.h"

#include "codegen/cpu/SharedObject.h"
#include "dialect/kernel/Kernel.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace gemma::codegen::test {
namespace {

/// A kernel that applies a function to rows of eight.
std::string kernelText(const std::string &function) {
  std::string row = "memref<?x8xf32>", map = "affine_map<(t, h, e) -> (t, e)>";
  return "kernel.func @rows_of_eight(%x: " + row +
         " {kernel.access = #kernel.access<read>}, %y: " + row +
         " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (1)> {\n"
         "kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> ins(%x : " +
         row + ") outs(%y : " + row + ") maps [" + map + ", " + map +
         "] {\n^bb0(%r: tensor<8xf32>):\n%s = math." + function +
         " %r : tensor<8xf32>\nkernel.yield %s : tensor<8xf32>\n}\nkernel.return\n}\n";
}

Expected<HostObject> compile(const std::string &text, const std::string &isa,
                             const CodegenOptions &options = {}) {
  mlir::MLIRContext context;
  context.loadDialect<kernel::KernelDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return internalError("cannot parse " + text);
  return compileHostKernels(*module, *findHostIsa(isa), options);
}

TEST(HostObjectTest, RefusesKernelsThatCallALibrary) {
  for (const HostIsa &isa : hostIsas()) {
    auto object = compile(kernelText("sin"), isa.name);
    ASSERT_FALSE(object.ok()) << isa.name;
    EXPECT_EQ(object.error().kind, ErrorKind::Internal);
    EXPECT_NE(object.error().message.find("sinf"), std::string::npos) << object.error().message;
    EXPECT_NE(object.error().message.find("rows_of_eight"), std::string::npos)
        << object.error().message;
  }
}

TEST(HostObjectTest, ExportsEveryKernelByName) {
  auto object = compile(kernelText("exp"), "baseline");
  ASSERT_TRUE(object.ok()) << object.error().message;
  EXPECT_TRUE(checkSharedObject(object->bytes, {"rows_of_eight"}).ok());
  Status missing = checkSharedObject(object->bytes, {"rows_of_nine"});
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.error().message.find("rows_of_nine"), std::string::npos);
  EXPECT_FALSE(checkSharedObject(object->bytes.substr(0, 100), {"rows_of_eight"}).ok());
}

TEST(HostObjectTest, SameKernelsGiveTheSameBytes) {
  auto first = compile(kernelText("tanh"), "avx2"), second = compile(kernelText("tanh"), "avx2");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->bytes, second->bytes);
}

TEST(HostObjectTest, DumpsTextOfEachKernel) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("host-dump-" + std::to_string(getpid()));
  auto object = compile(kernelText("exp"), "avx2", {folder.string()});
  ASSERT_TRUE(object.ok()) << object.error().message;
  for (const char *suffix : {"ll", "s", "o"}) {
    std::ifstream file(folder / (std::string("rows_of_eight.avx2.") + suffix));
    std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_NE(text.find("rows_of_eight"), std::string::npos) << suffix;
  }
  // The dumped object is the one that was linked.
  std::ifstream file(folder / "rows_of_eight.avx2.o", std::ios::binary);
  auto relinked = linkSharedObject({std::string((std::istreambuf_iterator<char>(file)), {})});
  ASSERT_TRUE(relinked.ok()) << relinked.error().message;
  EXPECT_EQ(*relinked, object->bytes);
  std::filesystem::remove_all(folder);
}

} // namespace
} // namespace gemma::codegen::test
