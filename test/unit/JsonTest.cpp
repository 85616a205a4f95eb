// Strict JSON and typed keys: each limit and each mismatch seen to fire.
#include "runtime/support/Json.h"

#include "runtime/support/JsonObject.h"
#include "test/unit/TestFiles.h"

using namespace gemma;
using nlohmann::json;

static Expected<json> parse(std::string_view text, const JsonLimits &limits = {}) {
  return parseJson(text, "f.json", limits);
}

TEST(JsonTest, ParsesWhatTheLibraryParses) {
  for (const char *text :
       {"null", "true", "-5", "1.5e3", "\"a\\u00e9\\n\"", "[]", "{}", " [1, [2, {\"a\": []}], 3] ",
        "{\"a\": {\"b\": [1, 2], \"c\": null}, \"d\": false}", "[18446744073709551615]"}) {
    Expected<json> value = parse(text);
    ASSERT_TRUE(value.ok()) << text << ": " << value.error().message;
    EXPECT_EQ(*value, json::parse(text)) << text;
  }
}

TEST(JsonTest, RefusesWhatIsNoJson) {
  for (const char *text : {"", " ", "{", "[1,]", "{\"a\" 1}", "{a: 1}", "[1] 2", "nul", "01", "+1",
                           "NaN", "'a'", "\"a", "\"\t\"", "// x\n1", "1e999"}) {
    EXPECT_ERROR(parse(text), "f.json: ");
  }
  EXPECT_ERROR(parse("[1,]"), "not valid JSON at line 1, column 4: ");
}

TEST(JsonTest, RefusesInvalidUtf8) {
  EXPECT_ERROR(parse("\"\xc3\x28\""), "UTF-8");
  EXPECT_ERROR(parse("\"\xff\""), "UTF-8");
  EXPECT_ERROR(parse("\"\xed\xa0\x80\""), "UTF-8"); // a surrogate
  EXPECT_OK(parse("\"\xf0\x9f\xa6\x99\""));
  // The message must stay printable.
  Expected<json> bad = parse("\"\x01\xff\"");
  for (unsigned char c : bad.error().message)
    EXPECT_TRUE(c >= 0x20 && c < 0x7f);
}

TEST(JsonTest, BoundsTheDepth) {
  auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_OK(parse(nested(64)));
  EXPECT_ERROR(parse(nested(65)), "nested deeper than 64");
  EXPECT_ERROR(parse(nested(3), {.maxDepth = 2}), "nested deeper than 2");
  EXPECT_ERROR(parse(std::string(10'000'000, '[')), "nested deeper than 64");
  std::string objects;
  for (int i = 0; i < 100'000; ++i)
    objects += "{\"a\":";
  EXPECT_ERROR(parse(objects), "nested deeper than 64");
}

TEST(JsonTest, BoundsTheNumberOfValues) {
  EXPECT_OK(parse("[1,2,3]", {.maxValues = 4}));
  EXPECT_ERROR(parse("[1,2,3]", {.maxValues = 3}), "more than 3 JSON values");
}

TEST(JsonTest, NamesDuplicateKeys) {
  EXPECT_ERROR(parse("{\"a\": 1, \"b\": 2, \"a\": 3}"), "duplicate key a");
  EXPECT_ERROR(parse("{\"a\": 1, \"a\": 3}", {.topLevelNoun = "tensor name"}),
               "duplicate tensor name a");
  EXPECT_ERROR(parse("{\"x\": {\"a\": 1, \"a\": 3}}", {.topLevelNoun = "tensor name"}),
               "duplicate key a");
  EXPECT_ERROR(parse("{\"\\u0061\": 1, \"a\": 3}"), "duplicate key a");
  EXPECT_ERROR(parse("{\"a b\": 1, \"a b\": 3}"), "duplicate key \"a b\"");
  EXPECT_OK(parse("[{\"a\": 1}, {\"a\": 2}]"));
}

TEST(JsonTest, DescribesValues) {
  EXPECT_EQ(describe(json(16.5)), "16.5");
  EXPECT_EQ(describe(json("2")), "\"2\"");
  EXPECT_EQ(describe(json(nullptr)), "null");
  EXPECT_EQ(describe(json::array({1, 2, 3})), "an array of 3 values");
  EXPECT_EQ(describe(json::object()), "an object");
  EXPECT_LT(describe(json(std::string(100'000, 'x'))).size(), 100u);
  EXPECT_EQ(quoteForMessage("a\"\\\n\xff"), R"("a\"\\\x0a\xff")");
}

// ---- typed keys

struct JsonObjectTest : testing::Test {
  json value = json::parse(R"({"i": 5, "f": 5.0, "h": 5.5, "s": "5", "b": true, "n": null,
    "big": 9223372036854775807, "over": 9223372036854775808, "huge": 18446744073709551616,
    "negative": -3, "list": [1], "object": {"x": "y"}})");
  Problems problems;
  JsonObject object{value, "f.json", "top", problems};

  std::string message() const { return problems.empty() ? "" : problems.error().message; }
};

TEST_F(JsonObjectTest, ReadsMatchingValues) {
  EXPECT_EQ(object.integer("i"), 5);
  EXPECT_EQ(object.integer("big"), INT64_MAX);
  EXPECT_EQ(object.integer("negative"), -3);
  EXPECT_EQ(object.number("i"), 5.0);
  EXPECT_EQ(object.number("f"), 5.0);
  EXPECT_EQ(object.boolean("b"), true);
  EXPECT_EQ(object.string("s"), "5");
  ASSERT_TRUE(object.object("object"));
  EXPECT_EQ(object.object("object")->string("x"), "y");
  EXPECT_EQ(message(), "");
}

TEST_F(JsonObjectTest, NullAndAbsentAreNothing) {
  for (const char *key : {"n", "absent"}) {
    EXPECT_FALSE(object.has(key));
    EXPECT_FALSE(object.integer(key));
    EXPECT_FALSE(object.number(key));
    EXPECT_FALSE(object.boolean(key));
    EXPECT_FALSE(object.string(key));
    EXPECT_FALSE(object.object(key));
  }
  EXPECT_EQ(message(), "");
  EXPECT_FALSE(object.requiredInteger("n"));
  EXPECT_EQ(message(), "f.json: top.n: expected an integer, got nothing");
}

TEST_F(JsonObjectTest, IntegersMustBeIntegers) {
  for (const char *key : {"f", "h", "s", "b", "over", "huge", "list", "object"})
    EXPECT_FALSE(object.integer(key)) << key;
  EXPECT_EQ(problems.count(), 8u);
  EXPECT_NE(message().find("f.json: top.h: expected an integer, got 5.5"), std::string::npos);
  EXPECT_NE(message().find("top.over: expected an integer, got 9223372036854775808"),
            std::string::npos);
}

TEST_F(JsonObjectTest, IntegersMustLieInTheirRange) {
  EXPECT_EQ(object.integer("i", {5, 5}), 5);
  EXPECT_FALSE(object.integer("i", {6, 9}));
  EXPECT_FALSE(object.requiredInteger("i", {1, 4}));
  EXPECT_EQ(message(), "f.json: top.i: expected an integer from 6 to 9, got 5\n"
                       "f.json: top.i: expected an integer from 1 to 4, got 5");
}

TEST_F(JsonObjectTest, OtherTypesMustMatch) {
  EXPECT_FALSE(object.number("s"));
  EXPECT_FALSE(object.boolean("i"));
  EXPECT_FALSE(object.string("i"));
  EXPECT_FALSE(object.object("list"));
  EXPECT_EQ(message(), "f.json: top.s: expected a number, got \"5\"\n"
                       "f.json: top.i: expected true or false, got 5\n"
                       "f.json: top.i: expected a string, got 5\n"
                       "f.json: top.list: expected an object, got an array of 1 value");
}

TEST(ProblemsTest, KeepsTwentyAndCountsTheRest) {
  Problems problems;
  for (int i = 0; i < 1000; ++i)
    problems.add("problem " + std::to_string(i));
  EXPECT_EQ(problems.count(), 1000u);
  std::string message = problems.error().message;
  EXPECT_TRUE(message.starts_with("problem 0\nproblem 1\n"));
  EXPECT_TRUE(message.ends_with("problem 19\nand 980 more"));
}
