// The modes of gemma-run.
#pragma once

#include "runtime/support/Status.h"
#include "tools/gemma-run/RunOptions.h"
#include "tools/gemma-run/Session.h"

namespace gemma::run {

/// Picks the mode and runs it.
Status runMode(const RunOptions &options);

/// --prompt, --prompt-file, --tokens, -
Status runPrompt(const RunOptions &options);
/// --chat
Status runChat(const RunOptions &options);
/// --perplexity
Status runPerplexity(const RunOptions &options);

/// One line on stderr: tokens a second for prompt and generation.
void printSpeed(int64_t promptTokens, const Generation &generation);

} // namespace gemma::run
