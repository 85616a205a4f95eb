// Caches of every type that the host has: what is stored of keys and values, and that logits are as
// good where positions wrap around a ring, where pages and chunks begin, as elsewhere.
#include "SyntheticModel.h"

#include <algorithm>
#include <cmath>

using namespace gemma;
using namespace gemma::test;

namespace {

constexpr int64_t window = SyntheticModel::window;

compiler::CompileOptions optionsOf(ScalarType caches, bool sharing = true) {
  return {.dtype = ScalarType::F32,
          .kvType = caches,
          .maxBatch = 3,
          .maxChunk = 64,
          .kvSharing = sharing};
}

/// Codes are within half a scale of what they were made from, the largest magnitude / 127.
TEST(CacheTypes, CodesAreWithinHalfAScale) {
  for (const char *layer : {"s", "f"})
    for (bool sharing : {true, false}) {
      SCOPED_TRACE(std::string(layer) + (sharing ? " shared" : " stored"));
      SyntheticModel model(layer);
      auto cachedBy = [&](ScalarType type, int64_t chunk) {
        CompiledModel compiled = model.compile(optionsOf(type, sharing));
        auto sequence = compiled.sequence();
        compiled.prefill(*sequence, someIds(5 * window + 3), chunk);
        return compiled.cached(*sequence, 0);
      };
      // Decode and prefill write the same codes.
      for (int64_t chunk : {0, 1}) {
        auto [k, v] = cachedBy(ScalarType::F32, chunk);
        auto [codedK, codedV] = cachedBy(ScalarType::I8, chunk);
        double largestError = 0;
        for (auto [want, got] : {std::pair{&k, &codedK}, {&v, &codedV}})
          for (int64_t p = 0; p < want->dim(0); ++p) {
            auto row = want->row(p), codes = got->row(p);
            double largest = 0;
            for (double x : row)
              largest = std::max(largest, std::fabs(x));
            for (int64_t d = 0; d < want->width(); ++d) {
              double error = std::fabs(row[d] - codes[d]);
              EXPECT_LE(error, largest / 254 * 1.0001) << p << " " << d;
              largestError = std::max(largestError, error / largest);
            }
          }
        EXPECT_GT(largestError, 1.0 / 1000) << "not rounded at all";
      }
    }
}

/// √ of the mean squared error of each position's logits, over several texts and models.
std::vector<double> errorsOf(ScalarType caches, int64_t length, int64_t chunk, bool sharing) {
  std::vector<double> sums(size_t(length), 0);
  int64_t count = 0;
  for (unsigned seed = 1; seed <= 3; ++seed) {
    SyntheticModel model("ssf", seed);
    CompiledModel compiled = model.compile(optionsOf(caches, sharing));
    for (int32_t start : {3, 11, 20}) {
      Ids ids = someIds(length, start);
      Tensor want = model.expected(ids);
      auto sequence = compiled.sequence();
      Tensor got = compiled.prefill(*sequence, ids, chunk);
      for (int64_t p = 0; p < length; ++p)
        for (int64_t v = 0; v < want.width(); ++v) {
          double difference = got.row(p)[v] - want.row(p)[v];
          sums[size_t(p)] += difference * difference;
        }
      count += want.width();
    }
  }
  for (double &sum : sums)
    sum = std::sqrt(sum / double(count));
  return sums;
}

double meanOf(const std::vector<double> &errors, int64_t from, int64_t to) {
  double sum = 0;
  for (int64_t p = from; p < to; ++p)
    sum += errors[size_t(p)] * errors[size_t(p)];
  return std::sqrt(sum / double(to - from));
}

/// A window of 8, rings of 80 positions (window, chunk), pages of 16: after 127 positions all have
/// wrapped.
TEST(CacheTypes, NoCliffAtTheWindow) {
  constexpr int64_t length = 127;
  struct Bound {
    ScalarType type;
    double rms;
  };
  for (auto [type, rms] : {Bound{ScalarType::I8, 0.05}, {ScalarType::BF16, 0.03}})
    for (bool sharing : {true, false})
      for (int64_t chunk : {0, 1, 13}) {
        SCOPED_TRACE(testing::Message()
                     << name(type) << (sharing ? " shared" : " stored") << ", chunks of " << chunk);
        std::vector<double> errors = errorsOf(type, length, chunk, sharing);
        double whole = meanOf(errors, window, length);
        EXPECT_LE(whole, rms);
        EXPECT_GT(whole, rms / 100);
        struct Place {
          const char *name;
          int64_t from, to;
        };
        for (auto [name, from, to] : {Place{"before the window", 1, window},
                                      {"at the window", window, window + 4},
                                      {"after the window", window + 4, 2 * window},
                                      {"before a page", 28, 32},
                                      {"at a page", 32, 36},
                                      {"at a chunk", 64, 68},
                                      {"before the ring's end", 76, 80},
                                      {"where the ring wraps", 80, 84},
                                      {"at the end", 120, 127}}) {
          EXPECT_LE(meanOf(errors, from, to), 1.6 * whole) << name;
          EXPECT_GE(meanOf(errors, from, to), whole / 2) << name; // first tokens add up less
        }
      }
}

/// f32 caches of a bf16 model lose nothing that bf16 ones do.
TEST(CacheTypes, WiderCachesAreBetter) {
  SyntheticModel model("ssf");
  Ids ids = someIds(5 * window);
  Tensor want = model.expected(ids);
  std::vector<double> errors;
  for (ScalarType type : {ScalarType::F32, ScalarType::BF16, ScalarType::I8}) {
    CompiledModel compiled = model.compile(optionsOf(type));
    auto sequence = compiled.sequence();
    errors.push_back(rmsDifference(compiled.prefill(*sequence, ids), want));
  }
  EXPECT_LE(errors[0], 1e-5);
  EXPECT_LT(errors[0], errors[1]);
  EXPECT_LT(errors[1], errors[2]);
}

/// What no token sees may be anything, scales too.
TEST(CacheTypes, DeadPlacesDoNotMatter) {
  SyntheticModel model("ssf");
  CompiledModel clean = model.compile(optionsOf(ScalarType::I8)),
                poisoned = model.compile(optionsOf(ScalarType::I8), {.poison = true});
  Ids ids = someIds(100);
  for (int64_t chunk : {0, 1, 13}) {
    auto a = clean.sequence(), b = poisoned.sequence();
    EXPECT_TRUE(clean.prefill(*a, ids, chunk).data == poisoned.prefill(*b, ids, chunk).data)
        << "chunks of " << chunk;
  }
}

} // namespace
