// A model that is loaded and ready: what every mode of gemma-run starts from.
#pragma once

#include "runtime/engine/Context.h"
#include "runtime/engine/Generator.h"
#include "runtime/engine/Model.h"
#include "runtime/text/Tokenizer.h"
#include "tools/driver/Interrupt.h"
#include "tools/gemma-run/RunOptions.h"

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace gemma::run {

using driver::interrupted; // by Ctrl-C

struct Session {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Context> context;
  std::optional<Tokenizer> tokenizer; ///< if the artifact has one
  double loadSeconds = 0;

  /// Reads the artifact, opens and packs the weights, allocates the context.
  static Expected<Session> open(const RunOptions &options);

  /// The tokenizer, or an error that says what needs it.
  Expected<Tokenizer> requireTokenizer(std::string_view what) const;
};

/// How tokens are drawn: the command line, else what the checkpoint's generation_config.json says,
/// else the most likely one always.
Expected<SamplingOptions> samplingOptions(const RunOptions &options, const Artifact &artifact);

/// "1,2,3" as ids; an error names what is no id. Whether the model has them is the engine's to say.
Expected<std::vector<int32_t>> parseTokenList(std::string_view text);

} // namespace gemma::run
