#include "runtime/abi/ProgramJson.h"
#include "test/unit/SampleProgram.h"

#include <gtest/gtest.h>

using namespace gemma;
using nlohmann::json;
using Op = SizeExpr::Op;

namespace {

std::string errorOf(const json &program) {
  Expected<Program> read = programFromJson(program, "test");
  return read ? "" : read.error().message;
}

TEST(ProgramJson, RoundTrip) {
  Program program = samples::sampleProgram();
  json written = programToJson(program);
  Expected<Program> read = programFromJson(json::parse(written.dump()), "test");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, program);
  EXPECT_EQ(programToJson(*read), written);
}

// Every single value replaced by something of the wrong kind, or taken away, is refused or means
// nothing (the optional keys).
TEST(ProgramJson, EveryDamagedValueIsRefusedOrOptional) {
  json flat = programToJson(samples::sampleProgram()).flatten();
  int tried = 0;
  for (auto &[path, value] : flat.items()) {
    json damaged = programToJson(samples::sampleProgram());
    damaged[json::json_pointer(path)] = json::object({{"x", 1}});
    EXPECT_NE(errorOf(damaged), "") << path;
    ++tried;
  }
  EXPECT_GT(tried, 100);
}

// Quantised storage is for weights alone: no tensor of a step lies in halves of bytes.
TEST(ProgramJson, QuantizedTypesAreForWeights) {
  Program program = samples::sampleProgram();
  program.weightType = ScalarType::I4;
  program.weights[0].storage = ScalarType::I4;
  program.weights[0].group = 32;
  Expected<Program> read = programFromJson(programToJson(program), "test");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, program);
  program.weights[0].storage = ScalarType::I16;
  EXPECT_NE(errorOf(programToJson(program)).find("expected a float type, i8 or i4"),
            std::string::npos);
  program = samples::sampleProgram();
  program.variants[0].launches[0].arguments[2].type = ScalarType::I4;
  EXPECT_NE(errorOf(programToJson(program)).find("expected a type of whole bytes"),
            std::string::npos);
  program = samples::sampleProgram();
  program.cacheType = ScalarType::I4;
  EXPECT_NE(errorOf(programToJson(program)).find("expected a float type"), std::string::npos);
}

TEST(ProgramJson, NamesTheMissingKey) {
  json program = programToJson(samples::sampleProgram());
  program["variants"][0]["launches"][1].erase("kernel");
  std::string message = errorOf(program);
  EXPECT_NE(message.find("variants[0].launches[1].kernel"), std::string::npos) << message;
}

TEST(ProgramJson, RefusesIndicesOutsideTheirList) {
  json program = programToJson(samples::sampleProgram());
  program["variants"][0]["launches"][1]["kernel"] = 2;
  EXPECT_NE(errorOf(program), "");
  program = programToJson(samples::sampleProgram());
  program["variants"][0]["launches"][1]["arguments"][2]["index"] = -1;
  EXPECT_NE(errorOf(program), "");
  program = programToJson(samples::sampleProgram());
  program["weights"][0]["bytes"] = 1.8e19;
  EXPECT_NE(errorOf(program), "");
}

TEST(ProgramJson, RefusesUnknownEnumerators) {
  json program = programToJson(samples::sampleProgram());
  program["variants"][0]["launches"][0]["arguments"][0]["kind"] = "register";
  std::string message = errorOf(program);
  EXPECT_NE(message.find("register"), std::string::npos) << message;
  program = programToJson(samples::sampleProgram());
  program["kernels"][0]["grid"] = {"T", "X", "+"};
  EXPECT_NE(errorOf(program), "");
  program["kernels"][0]["grid"] = {"T", "+"};
  EXPECT_NE(errorOf(program), "");
}

TEST(SizeExpr, Evaluates) {
  StepSizes sizes{7, 2, 5, 40, 3};
  SizeExpr expr{
      {{Op::Size, 0}, {Op::Constant, 3}, {Op::Mul, 0}, {Op::Constant, 4}, {Op::CeilDiv, 0}}};
  EXPECT_EQ(expr.evaluate(sizes), 6); // ceil(21 / 4)
  EXPECT_EQ(sizeExprToText(expr), "((T * 3) ceildiv 4)");
  auto binary = [&](int64_t a, int64_t b, Op op) {
    return SizeExpr{{{Op::Constant, a}, {Op::Constant, b}, {op, 0}}}.evaluate(sizes);
  };
  EXPECT_EQ(binary(-7, 2, Op::FloorDiv), -4);
  EXPECT_EQ(binary(-7, 2, Op::CeilDiv), -3);
  EXPECT_EQ(binary(-7, 2, Op::Mod), 1);
  EXPECT_EQ(binary(8, 2, Op::CeilDiv), 4);
  EXPECT_EQ(binary(8, 0, Op::FloorDiv), std::nullopt);
  EXPECT_EQ(binary(INT64_MIN, -1, Op::FloorDiv), std::nullopt);
  EXPECT_EQ(binary(INT64_MAX, 1, Op::Add), std::nullopt);
  EXPECT_EQ(binary(INT64_MAX, 2, Op::Mul), std::nullopt);
}

TEST(SizeExpr, MalformedHasNoValue) {
  StepSizes sizes{1, 1, 1, 1, 1};
  EXPECT_EQ(SizeExpr{}.evaluate(sizes), std::nullopt);
  EXPECT_EQ((SizeExpr{{{Op::Add, 0}}}).evaluate(sizes), std::nullopt);
  EXPECT_EQ((SizeExpr{{{Op::Size, 5}}}).evaluate(sizes), std::nullopt);
  EXPECT_EQ((SizeExpr{{{Op::Size, 0}, {Op::Size, 0}}}).evaluate(sizes), std::nullopt);
  EXPECT_FALSE((SizeCondition{SizeExpr{}, false}).holds(sizes));
}

TEST(SizeCondition, Holds) {
  SizeCondition atMost8{
      {{{Op::Constant, 8}, {Op::Size, 0}, {Op::Constant, -1}, {Op::Mul, 0}, {Op::Add, 0}}}, false};
  EXPECT_TRUE(atMost8.holds({8, 1, 8, 8, 1}));
  EXPECT_FALSE(atMost8.holds({9, 1, 9, 9, 1}));
  SizeCondition exactly{atMost8.expr, true};
  EXPECT_TRUE(exactly.holds({8, 1, 8, 8, 1}));
  EXPECT_FALSE(exactly.holds({7, 1, 7, 7, 1}));
}

} // namespace
