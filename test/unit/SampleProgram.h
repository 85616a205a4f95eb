// A small program that uses every kind of argument, for tests of the manifest and the artifact.
#pragma once

#include "runtime/abi/Program.h"

namespace gemma::samples {

inline Program sampleProgram() {
  using Op = SizeExpr::Op;
  using Kind = LaunchArgument::Kind;
  Program program;
  ModelConfig &config = program.config;
  config.vocab = 11;
  config.hidden = 8;
  config.intermediate = 16;
  config.heads = 2;
  config.layerKinds = {LayerKind::Sliding, LayerKind::Global};
  config.sliding = {1, 4, 8, {1.0e4, 4, 4, 2}, false};
  config.global = {1, 8, 0, {1.0e6, 8, 8, 1}, true};
  config.rmsEps = 1e-6;
  config.softcap = 30;
  config.maxPositions = 64;
  program.limits = {64, 2, 8, 8};
  program.numerics = "#gemma.numerics<weights = f32>";
  program.fused = true;
  program.weights = {
      {"embed", {"embed_tokens.weight"}, {11, 8}, ScalarType::F32, 0, 1, 1, 11 * 8 * 4}};
  program.caches = {{"c0", true, 1, 4, 8, 16, 1, ScalarType::F32},
                    {"c1", false, 1, 8, 0, 16, 0, ScalarType::F32, false}};
  program.tables = {{"sliding", 1.0e4, 4, 2, ScalarType::F32}};
  program.outputs = {{"logits", ScalarType::F32, {11}, 'R'}};
  program.kernels = {{"k0", {{{Op::Size, 0}}}, 64, {0, 0, 1, 2, 2}, std::string(32, '0')},
                     {"k1",
                      {{{Op::Size, 4}, {Op::Constant, 3}, {Op::CeilDiv, 0}}},
                      0,
                      {0, 0, 2, 1},
                      std::string(32, '1')}};
  LaunchArgument tokens{Kind::Input, 0, 0, -1, "tokens"};
  LaunchArgument embed{Kind::Weight, 0, 0, 0, ""};
  LaunchArgument hidden{Kind::Buffer, 64, 8 * 8 * 4, -1, "", ScalarType::F32, {8}, 8, 'T'};
  LaunchArgument parts{Kind::Workspace, 64 + 8 * 8 * 4, 128, -1, ""};
  LaunchArgument tickets{Kind::Tickets, 0, 16, -1, ""};
  LaunchArgument table{Kind::Table, 0, 0, 0, "cos_hi"};
  LaunchArgument cache{Kind::Cache, 0, 0, 1, "v"};
  LaunchArgument logits{Kind::Output, 0, 0, -1, "logits"};
  Variant variant;
  variant.name = "any";
  variant.conditions = {
      {{{{Op::Constant, 8}, {Op::Size, 0}, {Op::Constant, -1}, {Op::Mul, 0}, {Op::Add, 0}}},
       false}};
  variant.launches = {{0, {tokens, embed, hidden, parts, tickets}, {"embed"}},
                      {1, {hidden, table, cache, logits}, {"layers[0].attn.core", "lm_head"}}};
  variant.arenaBytes = 64 + 8 * 8 * 4 + 128;
  program.variants = {variant};
  return program;
}

} // namespace gemma::samples
