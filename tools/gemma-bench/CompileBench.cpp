// gemma-bench compile: seconds, memory and code size of compiling, each time in a process of its
// own, so that its peak memory is known and one compilation does not warm up the next.
#include "runtime/abi/Variants.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/engine/Artifact.h"
#include "tools/compiler/Compiler.h"
#include "tools/driver/TypeFlags.h"
#include "tools/gemma-bench/Bench.h"
#include "tools/measure/LaunchCost.h"
#include "tools/verify/BundledConfigs.h"
#include "tools/verify/ModelSource.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace gemma::bench {
namespace {

/// What the child tells about its artifact.
Json describe(const Artifact &artifact) {
  uint64_t code = 0;
  for (const KernelBinary &object : artifact.objects)
    code += object.bytes.size();
  const Program &program = artifact.program;
  Json facts = {{"kernels", program.kernels.size()},
                {"code_bytes", code},
                {"layers", program.config.layers()}};
  StepShape decode{{{0, 1}}, 1};
  size_t variant = variantFor(program, decode.sizes());
  if (variant < program.variants.size())
    facts["decode_launches_per_layer"] = launchesPerLayer(program.variants[variant]);
  return facts;
}

/// A checkpoint folder is compiled as such, everything else as a configuration alone. The artifact
/// is made completely, but not kept.
Expected<Json> compileOnce(const std::string &input, const std::string &weightType,
                           Progress &progress) {
  compiler::CompileOptions options;
  if (weightType != "bf16")
    options.weightType = driver::typeOfFlag(weightType);
  options.progress = [&](const std::string &step, int64_t, int64_t) {
    progress.update(input + ": " + step);
  };
  std::error_code code;
  Expected<Artifact> artifact = internalError("not compiled");
  if (std::filesystem::is_directory(input, code)) {
    Expected<Checkpoint> checkpoint = Checkpoint::open(input);
    if (!checkpoint)
      return checkpoint.status();
    artifact = compiler::compileCheckpoint(*checkpoint, options);
  } else {
    Expected<verify::ModelSource> source = verify::findModel(input);
    if (!source)
      return source.status();
    artifact = compiler::compileModel(source->config, options);
  }
  if (!artifact)
    return artifact.status();
  if (Status status = writeArtifact("/dev/null", *artifact); !status)
    return status;
  return describe(*artifact);
}

/// In the child: compiles and writes one JSON object to `pipe`. Does not return.
[[noreturn]] void runChild(const std::string &input, const std::string &weightType, int pipe) {
  std::signal(SIGINT, SIG_DFL);
  Json message;
  {
    Progress progress;
    Expected<Json> facts = compileOnce(input, weightType, progress);
    message =
        facts ? *facts : Json{{"error", facts.error().message}, {"kind", int(facts.error().kind)}};
  }
  std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t at = 0; at < text.size();) {
    ssize_t written = ::write(pipe, text.data() + at, text.size() - at);
    if (written <= 0)
      ::_exit(3);
    at += size_t(written);
  }
  ::_exit(0);
}

double seconds(const timeval &time) { return double(time.tv_sec) + double(time.tv_usec) * 1e-6; }

/// Reads to the end, or until Ctrl-C.
std::string readAll(int pipe) {
  std::string text;
  char buffer[4096];
  while (!interrupted) {
    ssize_t got = ::read(pipe, buffer, sizeof buffer);
    if (got > 0)
      text.append(buffer, size_t(got));
    else if (got == 0 || errno != EINTR)
      break;
  }
  return text;
}

/// Compiles in a child process: what it told, with "seconds", "cpu_seconds" and "peak_bytes".
Expected<Json> compileInChild(const std::string &input, const std::string &weightType) {
  int ends[2];
  if (::pipe(ends))
    return internalError(std::string("pipe: ") + std::strerror(errno));
  std::fflush(stdout);
  Stopwatch watch;
  pid_t child = ::fork();
  if (child < 0)
    return internalError(std::string("fork: ") + std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    runChild(input, weightType, ends[1]);
  }
  ::close(ends[1]);
  std::string text = readAll(ends[0]);
  ::close(ends[0]);
  if (interrupted)
    ::kill(child, SIGKILL);
  int state = 0;
  rusage used{};
  while (::wait4(child, &state, 0, &used) < 0)
    if (errno != EINTR)
      return internalError(std::string("wait4: ") + std::strerror(errno));
  double wall = watch.seconds();
  if (interrupted)
    return Json();
  Json facts = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (WIFSIGNALED(state))
    return internalError(input + ": the compiling process was ended by signal " +
                         std::to_string(WTERMSIG(state)));
  if (!facts.is_object())
    return internalError(input + ": the compiling process told nothing");
  if (facts.contains("error"))
    return Error{ErrorKind(facts.value("kind", 3)), facts.value("error", "")};
  facts["seconds"] = wall;
  facts["cpu_seconds"] = seconds(used.ru_utime) + seconds(used.ru_stime);
  facts["peak_bytes"] = uint64_t(used.ru_maxrss) * 1024;
  return facts;
}

/// All rounds of one input and type; the median seconds, the largest of the rest.
Expected<Json> measureInput(const std::string &input, const std::string &weightType,
                            int64_t rounds) {
  Series wall, cpu;
  Json facts;
  uint64_t peak = 0;
  for (int64_t round = 0; round < rounds; ++round) {
    Expected<Json> one = compileInChild(input, weightType);
    if (!one)
      return one;
    if (interrupted)
      return Json();
    facts = *one;
    wall.add(facts["seconds"].get<double>());
    cpu.add(facts["cpu_seconds"].get<double>());
    peak = std::max(peak, facts["peak_bytes"].get<uint64_t>());
  }
  facts["input"] = input;
  facts["weight_type"] = weightType;
  facts["seconds"] = wall.median();
  facts["cpu_seconds"] = cpu.median();
  facts["peak_bytes"] = peak;
  return facts;
}

} // namespace

Status benchCompile(const BenchOptions &options) {
  int64_t rounds = options.rounds ? options.rounds : 1;
  std::vector<std::string> inputs = options.inputs;
  if (inputs.empty())
    for (const verify::BundledConfig &config : verify::bundledConfigs())
      inputs.emplace_back(config.key);
  Json list = Json::array();
  std::vector<std::pair<std::string, std::string>> cases;
  for (const std::string &input : inputs)
    for (const std::string &type : options.weightTypes)
      cases.emplace_back(input, type);
  for (const auto &[input, type] : cases) {
    Expected<Json> facts = measureInput(input, type, rounds);
    if (!facts)
      return facts.status();
    if (interrupted)
      return {};
    std::printf(
        "%s, %s: %.1f s (%.1f s of processor), peak %.0f MiB, %lld kernels, %.0f KiB of code, "
        "%lld launches a layer in decode\n",
        input.c_str(), type.c_str(), (*facts)["seconds"].get<double>(),
        (*facts)["cpu_seconds"].get<double>(),
        double((*facts)["peak_bytes"].get<uint64_t>()) / (1 << 20),
        (*facts)["kernels"].get<long long>(), double((*facts)["code_bytes"].get<uint64_t>()) / 1024,
        facts->value("decode_launches_per_layer", 0ll));
    list.push_back(std::move(*facts));
  }
  return finishReport(
      options, "compile", rounds, {{"compilations", list}}, [&](BudgetCheck &budget) {
        for (const Json &facts : list)
          for (const char *key :
               {"cpu_seconds", "peak_bytes", "code_bytes", "decode_launches_per_layer"})
            if (facts.contains(key))
              budget.check(facts["input"].get<std::string>() + ", " +
                               facts["weight_type"].get<std::string>(),
                           key, facts[key].get<double>());
      });
}

} // namespace gemma::bench
