// gemma-bench: measures the machine, the kernels, a model, the compiler.
#include "tools/driver/Cli.h"
#include "tools/gemma-bench/Bench.h"

#include <memory>

using namespace gemma;
using namespace gemma::bench;

namespace {

void addCommon(CLI::App &mode, BenchOptions &options, const char *rounds) {
  mode.add_option("--rounds", options.rounds, rounds)->check(CLI::Range(1, 1000));
  mode.add_option("--json", options.jsonFile, "write everything measured into this file");
  mode.add_flag("--budget", options.budget, "exit with 1 if a budget is exceeded");
}

void addMachine(CLI::App &mode, BenchOptions &options) {
  mode.add_option("--threads", options.threads, "default: the cores the process may use")
      ->check(CLI::Range(1, 4096));
  mode.add_option("--size", options.bufferMiB,
                  "MiB of the buffer that the limits are measured with")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
}

void addTokens(CLI::App &mode, BenchOptions &options) {
  mode.add_option("--prompt", options.prompt,
                  "tokens of the prompt (default: 512, if there is room)")
      ->check(CLI::Range(1, 262144));
  mode.add_option("--context", options.context,
                  "positions in the caches when decoding begins (default: the prompt's)")
      ->check(CLI::Range(1, 262144));
}

/// An option of one word: values between commas.
template <typename Value>
CLI::Option *addList(CLI::App &mode, const char *name, std::vector<Value> &values,
                     const char *help) {
  return mode.add_option(name, values, help)->delimiter(',')->allow_extra_args(false);
}

std::function<Status()> declare(CLI::App &app) {
  auto options = std::make_shared<BenchOptions>();
  app.require_subcommand(1);
  app.fallthrough(false);
  CLI::App *limits = app.add_subcommand("limits", "what memory and cores can do at most");
  CLI::App *kernels = app.add_subcommand("kernels", "every kernel of an artifact, by the limits");
  CLI::App *model = app.add_subcommand("model", "prefill and decode of a model, by the limits");
  CLI::App *compile = app.add_subcommand("compile", "seconds, memory and code size of compiling");
  CLI::App *emu = app.add_subcommand(
      "emu", "what kernels for CUDA devices do to memory and tensor cores, counted by emulation");
  for (CLI::App *mode : {limits, kernels, model}) {
    addCommon(*mode, *options,
              mode == model ? "rounds; the best counts (default: 9)"
                            : "rounds; medians count (default: 5)");
    addMachine(*mode, *options);
  }
  addCommon(*compile, *options, "compilations of each; medians count (default: 1)");
  kernels->add_option("ARTIFACT", options->artifact,
                      "what gemma-compile wrote (default: a built-in model of two layers)");
  model->add_option("ARTIFACT", options->artifact, "what gemma-compile wrote")->required();
  addTokens(*kernels, *options);
  addTokens(*model, *options);
  model->add_option("--decode", options->decode, "tokens to decode one by one (default: 32)")
      ->check(CLI::Range(1, 262144));
  addList(*model, "--long-prompt", options->longPrompts,
          "list: prompts to prefill too, whose speed is compared with the prompt's")
      ->check(CLI::Range(1, 262144));
  addList(*model, "--long-context", options->longContexts,
          "list: positions after which to decode too; what a token costs more is compared "
          "with what its reads and FLOPs more take at the limits")
      ->check(CLI::Range(1, 262144));
  model
      ->add_option("--packed-weights", options->packedWeights,
                   "a file of gemma-compile --pack-weights, mapped (default: weights are made up)")
      ->check(CLI::ExistingFile);
  model
      ->add_option("--beside", options->beside,
                   "decode also beside this many busy processes, and compare with the fair share")
      ->check(CLI::Range(0, 1024));
  compile->add_option("INPUT", options->inputs,
                      "checkpoint folders, config.json files or model keys (default: the published "
                      "configurations)");
  addList(*compile, "--weight-type", options->weightTypes,
          "list of bf16, int8, int4: how matrices are stored")
      ->check(CLI::IsMember({"bf16", "int8", "int4"}))
      ->capture_default_str();
  emu->add_option("INPUT", options->inputs,
                  "config.json files or model keys, of which a layer of each kind is taken "
                  "(default: the published configurations)");
  emu->add_option("--target", options->target, "an emulated device")->capture_default_str();
  addList(*emu, "--batch", options->batches,
          "list: sequences of the decode steps (default: 1,8,32)")
      ->check(CLI::Range(1, 256));
  emu->add_option("--context", options->context,
                  "positions in the caches of the decode steps (default: 4096)")
      ->check(CLI::Range(1, 262143));
  emu->add_option("--prompt", options->prompt, "tokens of the prefill step (default: 512)")
      ->check(CLI::Range(1, 262144));
  emu->add_option("--blocks", options->blocks, "most blocks of a launch that run, evenly spaced")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  emu->add_option("--threads", options->threads, "default: the cores the process may use")
      ->check(CLI::Range(1, 4096));
  emu->add_option("--json", options->jsonFile, "write everything counted into this file");
  emu->add_flag("--budget", options->budget, "exit with 1 if a budget is exceeded");
  app.footer("Weights are made up, unless --packed-weights names some, and so are cached positions "
             "that no\n"
             "prompt has computed: no checkpoint is read, except by compile.\n"
             "docs/Benchmarking.md tells how to read the figures.\n"
             "GEMMA_ISA=NAME forces one of the artifact's instruction sets.\n"
             "Exit codes: 0 ok, 1 bad input or a budget exceeded, 2 usage, 3 internal, 130 after "
             "Ctrl-C.");
  return [=]() -> Status {
    if (limits->parsed())
      return benchLimits(*options);
    if (kernels->parsed())
      return benchKernels(*options);
    if (model->parsed())
      return benchModel(*options);
    if (emu->parsed())
      return benchEmu(*options);
    return benchCompile(*options);
  };
}

} // namespace

int main(int argc, char **argv) {
  catchInterrupts();
  int code = driver::runTool(
      "gemma-bench", "Measures, and compares with what the same machine can do at the same time.",
      declare, argc, argv);
  return interrupted ? 130 : code;
}
