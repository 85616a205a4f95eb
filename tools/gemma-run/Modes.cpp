#include "tools/gemma-run/Modes.h"

#include "runtime/support/Json.h"

namespace gemma::run {

Status runMode(const RunOptions &options) {
  if (!options.standardInput.empty() && options.standardInput != "-")
    return usage("expected - or an option that gives the prompt, got " +
                 quoteForMessage(options.standardInput));
  int sources = int(!options.standardInput.empty()) + int(options.prompt.has_value()) +
                int(options.promptFile.has_value()) + int(options.tokens.has_value()) +
                int(options.chat) + int(options.perplexity.has_value());
  if (sources != 1)
    return usage(
        "expected one of --prompt, --prompt-file, --tokens, -, --chat, --perplexity, got " +
        std::string(sources ? std::to_string(sources) : "none") + " of them");
  bool prompt = !options.chat && !options.perplexity;
  if (!prompt && (!options.logitsOut.empty() || !options.nodesOut.empty()))
    return usage("--logits-out and --nodes-out are for one prompt");
  bool profiled = options.profile || !options.profileOut.empty();
  if (profiled && (!prompt || !options.nodesOut.empty()))
    return usage("--profile and --profile-out are for one prompt, without --nodes-out");
  if (options.chat && options.json)
    return usage("--json is not for --chat");
  if (options.chat)
    return runChat(options);
  return options.perplexity ? runPerplexity(options) : runPrompt(options);
}

} // namespace gemma::run
