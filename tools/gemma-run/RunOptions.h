// What the command line of gemma-run says.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace gemma::run {

struct RunOptions {
  std::string artifact;
  // Exactly one source of tokens:
  std::string standardInput; ///< "-" if the prompt comes from there
  std::optional<std::string> prompt, promptFile, tokens, perplexity;
  bool chat = false;

  std::string device = "auto"; ///< DeviceChoice::parse()
  std::string weights;         ///< a folder, or a packed file; empty: the recorded one
  std::string packedWeights;   ///< a packed file; empty: that beside the artifact, if any
  std::optional<int64_t> threads, context;
  int64_t maxTokens = 256;
  bool ignoreEos = false;

  bool greedy = false;
  std::optional<double> temperature, topP, minP;
  std::optional<int64_t> topK;
  std::optional<uint64_t> seed;

  std::string logitsOut, nodesOut;
  bool profile = false;
  std::string profileOut;
  bool verifyWeights = false;
  bool json = false;
  bool quiet = false;
};

} // namespace gemma::run
