// A toy model whose kernels are in kernels/CacheKernels.c, and the same in plain loops.
#pragma once

#include "runtime/abi/ProgramSizes.h"
#include "runtime/engine/Artifact.h"
#include "runtime/support/File.h"

#include <filesystem>
#include <span>
#include <vector>

namespace gemma::toy {

inline constexpr int64_t hidden = 80, vocab = 515, window = 11, maxContext = 100;

inline std::filesystem::path checkpointFolder() {
  return std::filesystem::path(GEMMA_SOURCE_DIR) / "test/data/models/text-only-f32";
}

inline Program toyProgram(const ModelConfig &config) {
  using Op = SizeExpr::Op;
  using Kind = LaunchArgument::Kind;
  Program program;
  program.config = config;
  program.limits = {maxContext, 3, 8, 8};
  program.weights = {
      {"embed", {"embed_tokens.weight"}, {vocab, hidden}, ScalarType::F64, 0, 1, 1, 0},
      {"head", {"embed_tokens.weight"}, {vocab, hidden}, ScalarType::F64, 16, 2, 1, 0}};
  for (WeightRecipe &weight : program.weights)
    weight.bytes = *packedBytes(weight);
  program.caches = {{"ring", true, 2, 40, window, 16, 2, ScalarType::F64},
                    {"paged", false, 2, 40, 0, 16, 0, ScalarType::F64}};
  program.tables = {{"angles", 1.0e4, 20, 10, ScalarType::F64}};
  program.outputs = {{"logits", ScalarType::F64, {vocab}, 'R'}};
  SizeExpr tokens{{{Op::Size, 0}}}, logitRows{{{Op::Size, 4}}};
  std::string hash(32, '0');
  program.kernels = {{"toy_append", tokens, 0, {0, 0, 0, 0, 0, 1, 1, 1, 1}, hash},
                     {"toy_attend", tokens, hidden * 8, {0, 0, 0, 0, 0, 0, 1}, hash},
                     {"toy_logits", logitRows, 0, {0, 0, 0, 1}, hash}};
  auto input = [](const char *name) { return LaunchArgument{Kind::Input, 0, 0, -1, name}; };
  auto cache = [](int64_t index, const char *lane) {
    return LaunchArgument{Kind::Cache, 0, 0, index, lane};
  };
  auto weight = [](int64_t index) { return LaunchArgument{Kind::Weight, 0, 0, index, ""}; };
  LaunchArgument y{Kind::Buffer,    64,       8 * hidden * 8, -1, "",
                   ScalarType::F64, {hidden}, hidden,         'T'};
  Variant all;
  all.name = "all";
  all.launches = {
      {0,
       {input("tokens"), input("positions"), input("ring_pages"), input("pages"), weight(0),
        cache(0, "k"), cache(0, "v"), cache(1, "k"), cache(1, "v")},
       {"append"}},
      {1,
       {input("row_starts"), input("seq_lens"), input("slots"), input("page_table"), cache(0, "k"),
        cache(1, "v"), y},
       {"attend"}},
      {2,
       {y, input("logit_rows"), weight(1), LaunchArgument{Kind::Output, 0, 0, -1, "logits"}},
       {"logits"}}};
  all.arenaBytes = 64 + y.bytes;
  Variant few = all;
  few.name = "few";
  few.conditions = {
      {{{{Op::Constant, 1}, {Op::Size, 0}, {Op::Constant, -1}, {Op::Mul, 0}, {Op::Add, 0}}},
       false}};
  program.variants = {few, all};
  return program;
}

inline Artifact toyArtifact(const ModelConfig &config) {
  Artifact artifact;
  artifact.program = toyProgram(config);
  artifact.objects = {
      {"baseline",
       ObjectKind::Host,
       "",
       {},
       *readWholeFile(std::string(GEMMA_TEST_OBJECTS) + "/CacheKernels.so", 1 << 20)}};
  return artifact;
}

/// The logits after tokens[0..position]; `embedding` is [vocab, hidden].
inline std::vector<double> toyLogits(const double *embedding, std::span<const int32_t> tokens,
                                     int64_t position) {
  std::vector<double> y(hidden, 0), logits(vocab);
  for (int64_t l = 0; l <= position; ++l)
    for (int64_t h = 0; h < hidden; ++h) {
      double e = embedding[tokens[size_t(l)] * hidden + h];
      y[size_t(h)] += e;
      if (l > position - window)
        y[size_t(h)] += double(l + 1) * e;
    }
  for (int64_t v = 0; v < vocab; ++v)
    for (int64_t h = 0; h < hidden; ++h)
      logits[size_t(v)] += y[size_t(h)] * embedding[v * hidden + h];
  return logits;
}

} // namespace gemma::toy
