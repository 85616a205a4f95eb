// gemma-gpu-check: compares what a device computes with a record, and times it. Links neither MLIR
// nor LLVM.
#include "tools/driver/Cli.h"
#include "tools/gemma-gpu-check/Modes.h"

#include <memory>

using namespace gemma;
using namespace gemma::check;

static std::function<Status()> declare(CLI::App &app) {
  auto options = std::make_shared<CheckOptions>();
  app.require_subcommand(1);
  CLI::App *facts = app.add_subcommand("facts", "what a CUDA device is");
  facts->add_option("ORDINAL", options->ordinal, "its number (default: 0)");
  CLI::App *cases = app.add_subcommand("cases", "the names of the cases, one a line");
  CLI::App *record = app.add_subcommand("record", "runs the cases and writes what launches wrote");
  CLI::App *check = app.add_subcommand("check", "runs the cases and compares with a record");
  CLI::App *time = app.add_subcommand("time", "times decoding and prompts");
  CLI::App *projections = app.add_subcommand(
      "projections", "times projections one at a time, beside cuBLAS if it can be opened");
  CLI::App *ceilings = app.add_subcommand(
      "ceilings", "times what bounds all kernels: writing memory, launches that do nothing");
  for (CLI::App *mode : {cases, record, check, time, projections, ceilings})
    mode->add_option("ARTIFACT", options->artifact, "what gemma-compile wrote, for CUDA devices")
        ->required();
  for (CLI::App *mode : {record, check})
    mode->add_option("RECORD", options->record, "a safetensors file")->required();
  for (CLI::App *mode : {record, check, time}) {
    mode->add_option("--device", options->device, "auto, cuda:N or emu")->capture_default_str();
    mode->add_option("--weights", options->weights,
                     "the checkpoint's folder (default: where it was at compile time)");
  }
  for (CLI::App *mode : {record, check})
    mode->add_option("--case", options->cases, "these alone, commas between")->delimiter(',');
  check
      ->add_option("--bound", options->bound,
                   "most rms error of a launch, as a share of its values' rms")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  for (CLI::App *mode : {time, projections, ceilings})
    mode->add_option("--steps", options->steps, "that are timed")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  time->add_option("--cached", options->cached, "positions before the decoded ones (default: 0)")
      ->check(CLI::NonNegativeNumber);
  for (CLI::App *mode : {projections, ceilings})
    mode->add_option("--ordinal", options->ordinal, "the device's number (default: 0)")
        ->check(CLI::NonNegativeNumber);
  app.footer("Prints JSON objects, one a line, each as soon as it is known.\n"
             "GEMMA_LIBCUBLAS names a cuBLAS in place of the system's.\n"
             "Exit codes: 0 ok, 1 bad input or a difference, 2 usage, 3 internal.");
  return [=]() -> Status {
    if (facts->parsed())
      return printFacts(*options);
    if (cases->parsed())
      return printCases(*options);
    if (projections->parsed())
      return timeProducts(*options);
    if (ceilings->parsed())
      return timeLimits(*options);
    if (record->parsed())
      return recordCases(*options);
    return check->parsed() ? checkCases(*options) : timeSteps(*options);
  };
}

int main(int argc, char **argv) {
  return driver::runTool("gemma-gpu-check",
                         "Compares what a device computes with a record, launch by launch.",
                         declare, argc, argv);
}
