// The shared object of a module: what it may hold, and what is written beside it.
#include "HostKernelHarness.h"

#include "codegen/cpu/SharedObject.h"
#include "dialect/kernel/Kernel.h"

#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/ThreadPool.h"

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace gemma::codegen::test {
namespace {

/// A kernel that applies a function to rows of eight.
std::string kernelText(const std::string &function, const std::string &name = "rows_of_eight") {
  std::string row = "memref<?x8xf32>", map = "affine_map<(t, h, e) -> (t, e)>";
  return "kernel.func @" + name + "(%x: " + row +
         " {kernel.access = #kernel.access<read>}, %y: " + row +
         " {kernel.access = #kernel.access<write>}) grid affine_map<()[T, B, Q, S, R] -> (1)> {\n"
         "kernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> ins(%x : " +
         row + ") outs(%y : " + row + ") maps [" + map + ", " + map +
         "] {\n^bb0(%r: tensor<8xf32>):\n%s = math." + function +
         " %r : tensor<8xf32>\nkernel.yield %s : tensor<8xf32>\n}\nkernel.return\n}\n";
}

/// For every instruction set; in parallel unless `alone`.
Expected<std::vector<HostObject>> compileAll(const std::string &text, bool alone,
                                             const CodegenOptions &options = {},
                                             const std::vector<HostIsa> &isas = hostIsas()) {
  mlir::MLIRContext context;
  llvm::DefaultThreadPool threads(llvm::hardware_concurrency(4));
  context.disableMultithreading();
  if (!alone)
    context.setThreadPool(threads);
  context.loadDialect<kernel::KernelDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return internalError("cannot parse " + text);
  return compileHostKernels(*module, isas, options);
}

Expected<HostObject> compile(const std::string &text, const std::string &isa,
                             const CodegenOptions &options = {}) {
  auto objects = compileAll(text, /*alone=*/true, options, {*findHostIsa(isa)});
  if (!objects)
    return objects.status();
  return std::move(objects->front());
}

/// Kernels k0, k1, ... that apply these functions.
std::string kernelsText(const std::vector<std::string> &functions) {
  std::string text;
  for (size_t i = 0; i < functions.size(); ++i)
    text += kernelText(functions[i], "k" + std::to_string(i));
  return text;
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

TEST(HostObjectTest, ParallelCompilationGivesTheSameObjects) {
  std::string text = kernelsText({"exp", "tanh", "sqrt", "exp", "absf", "tanh", "rsqrt"});
  auto expected = compileAll(text, /*alone=*/true);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  ASSERT_EQ(expected->size(), hostIsas().size());
  for (int round = 0; round < 5; ++round) {
    auto objects = compileAll(text, /*alone=*/false);
    ASSERT_TRUE(objects.ok()) << objects.error().message;
    for (size_t i = 0; i < expected->size(); ++i) {
      EXPECT_EQ((*objects)[i].isa, (*expected)[i].isa);
      EXPECT_EQ((*objects)[i].bytes, (*expected)[i].bytes) << hostIsas()[i].name;
      ASSERT_EQ((*objects)[i].kernels.size(), 7u);
      for (size_t k = 0; k < 7; ++k)
        EXPECT_EQ((*objects)[i].kernels[k].name, "k" + std::to_string(k));
    }
  }
}

TEST(HostObjectTest, ReportsTheFirstErrorInOrder) {
  // k2 and k4 cannot be lowered, for different reasons.
  auto failing = [](const std::string &name, const std::string &type, const std::string &body) {
    std::string row = "memref<?x8x" + type + ">", map = "affine_map<(t, h, e) -> (t, e)>";
    return "kernel.func @" + name + "(%x: " + row +
           " {kernel.access = #kernel.access<readwrite>}) grid affine_map<()[T, B, Q, S, R] -> "
           "(1)> {\nkernel.rows domain affine_map<()[T, B, Q, S, R] -> (0, T, 0, 1)> extent <T> "
           "ins(%x : " +
           row + ") outs(%x : " + row + ") maps [" + map + ", " + map + "] {\n^bb0(%r: tensor<8x" +
           type + ">):\n" + body + "kernel.yield %s : tensor<8x" + type +
           ">\n}\nkernel.return\n}\n";
  };
  std::string text =
      kernelText("exp", "k0") + kernelText("tanh", "k1") +
      failing("k2", "bf16", "%s = arith.addf %r, %r : tensor<8xbf16>\n") + kernelText("exp", "k3") +
      failing("k4", "f32",
              "%a = tensor.extract_slice %r[0] [4] [1] : tensor<8xf32> to tensor<4xf32>\n"
              "%s = tensor.insert_slice %a into %r[4] [4] [1] : tensor<4xf32> into "
              "tensor<8xf32>\n");
  std::string expected;
  for (bool alone : {true, false, false, false}) {
    auto objects = compileAll(text, alone);
    ASSERT_FALSE(objects.ok());
    if (alone)
      expected = objects.error().message;
    EXPECT_EQ(objects.error().message, expected);
  }
  EXPECT_NE(expected.find("kernel k2 for " + hostIsas().front().name), std::string::npos)
      << expected;
  EXPECT_NE(expected.find("computes with a 16-bit float"), std::string::npos) << expected;
}

TEST(HostObjectTest, TellsOfEachInstructionSetInOrder) {
  std::vector<std::string> started, names;
  CodegenOptions options;
  options.started = [&](const HostIsa &isa) { started.push_back(isa.name); };
  ASSERT_TRUE(compileAll(kernelsText({"exp", "tanh"}), /*alone=*/false, options).ok());
  for (const HostIsa &isa : hostIsas())
    names.push_back(isa.name);
  EXPECT_EQ(started, names);
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
