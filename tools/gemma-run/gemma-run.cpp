// gemma-run: runs an artifact. Links neither MLIR nor LLVM.
#include "tools/driver/Cli.h"
#include "tools/gemma-run/Modes.h"

#include <memory>

using namespace gemma;
using namespace gemma::run;

static std::function<Status()> declare(CLI::App &app) {
  auto options = std::make_shared<RunOptions>();
  app.add_option("ARTIFACT", options->artifact, "what gemma-compile wrote")->required();
  app.add_option("STDIN", options->standardInput, "\"-\": read the prompt from standard input");

  CLI::Option_group *source = app.add_option_group("prompt", "one of these, or - for stdin");
  source->add_option("--prompt", options->prompt, "a text to continue; <bos> is put first");
  source->add_option("--prompt-file", options->promptFile, "the same from a file");
  source->add_option("--tokens", options->tokens,
                     "ids as they are, between commas or blanks: 2,651,9");
  source->add_flag("--chat", options->chat, "a conversation: a line in, an answer out");
  source->add_option("--perplexity", options->perplexity,
                     "measure a file: .txt is one text, .jsonl a string or an array of ids a line");

  app.add_option("--weights", options->weights,
                 "the checkpoint's folder (default: where it was at compile time)");
  app.add_option("--packed-weights", options->packedWeights,
                 "a file of gemma-compile --pack-weights, which is mapped (default: "
                 "ARTIFACT.weights, if it is there)");
  app.add_option(
         "--device", options->device,
         "auto, host, cuda:N or emu (the emulated CUDA device); auto: what the artifact was "
         "compiled for, and for CUDA the emulated device where there is none")
      ->capture_default_str();
  app.add_option("--threads", options->threads, "default: the cores the process may use")
      ->check(CLI::Range(int64_t(1), int64_t(4096)));
  app.add_option("--context", options->context,
                 "most tokens of a sequence (default and limit: what was compiled)")
      ->check(CLI::PositiveNumber);
  app.add_option("--max-tokens", options->maxTokens,
                 "tokens to generate; 0: only compute the prompt")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--ignore-eos", options->ignoreEos, "do not stop at the end tokens");

  CLI::Option *greedy = app.add_flag("--greedy", options->greedy, "the most likely token, always");
  app.add_option("--temperature", options->temperature, "divides the logits; 0 is --greedy")
      ->check(CLI::NonNegativeNumber)
      ->excludes(greedy);
  app.add_option("--top-k", options->topK, "keep the K most likely; 0: all")
      ->check(CLI::NonNegativeNumber)
      ->excludes(greedy);
  app.add_option("--top-p", options->topP, "keep the most likely with together this probability")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(greedy);
  app.add_option("--min-p", options->minP, "keep those with this share of the largest probability")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(greedy);
  app.add_option("--seed", options->seed, "of the draws (default: another one each time)");

  app.add_option("--logits-out", options->logitsOut,
                 "a safetensors file: logits [T, V] of every token of the prompt, generated.logits "
                 "[N, V] that each generated token was chosen from");
  app.add_option(
      "--nodes-out", options->nodesOut,
      "a safetensors file: what every node computed for the prompt (an artifact compiled "
      "with --fusion off)");
  app.add_flag("--profile", options->profile,
               "time every launch; then say for each kind its share, bytes, speed and fraction of "
               "what the machine can do");
  app.add_option("--profile-out", options->profileOut,
                 "a JSON file: every step and launch, for chrome://tracing or Perfetto");
  app.add_flag("--verify-weights", options->verifyWeights,
               "compare the weight files with the hashes of their content");
  app.add_flag("--json", options->json, "one JSON object instead of text");
  app.add_flag("--quiet", options->quiet, "no progress, no speed");
  app.footer("Sampling defaults come from the checkpoint's generation_config.json, else --greedy.\n"
             "GEMMA_ISA=NAME forces one of the artifact's instruction sets.\n"
             "GEMMA_EMU=order=reverse,async=random,seed=7,checks=off sets how the emulated device "
             "runs.\n"
             "GEMMA_POISON=1 fills memory that must not be read with NaN before every step.\n"
             "GEMMA_LIBCUDA=FILE is the CUDA driver's library instead of libcuda.so.1; with\n"
             "GEMMA_CUDA_SYNC=1 an error on a CUDA device names its kernel, with\n"
             "GEMMA_CUDA_GRAPHS=0 steps do not become graphs.\n"
             "Exit codes: 0 ok, 1 bad input, 2 usage, 3 internal, 130 after Ctrl-C.");
  return [options] { return runMode(*options); };
}

int main(int argc, char **argv) {
  driver::catchInterrupts();
  int code = driver::runTool("gemma-run", "Runs an artifact: continues a prompt, talks, measures.",
                             declare, argc, argv);
  return interrupted ? driver::interruptedCode : code;
}
