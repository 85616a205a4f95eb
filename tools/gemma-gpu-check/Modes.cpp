#include "tools/gemma-gpu-check/Modes.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/device/cuda/Device.h"
#include "runtime/support/Json.h"
#include "tools/gemma-gpu-check/Ceilings.h"
#include "tools/gemma-gpu-check/Projections.h"
#include "tools/gemma-gpu-check/StepLog.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <iostream>

namespace gemma::check {

namespace {

using Json = nlohmann::ordered_json;

/// Behind an argument's name in a record: the rms of all its rows.
constexpr const char *sizeSuffix = ".rms";

/// A line, at once: what comes later may not come.
void print(const Json &line) {
  std::cout << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
}

struct Loaded {
  std::shared_ptr<const Model> model;
  std::unique_ptr<Context> context;
};

Expected<Loaded> load(const CheckOptions &options, bool poison) {
  Expected<DeviceChoice> device = DeviceChoice::parse(options.device);
  if (!device)
    return usage("--" + device.error().message);
  Expected<Artifact> artifact = readArtifact(options.artifact);
  if (!artifact)
    return artifact.status();
  ModelOptions modelOptions;
  modelOptions.device = *device;
  Expected<std::shared_ptr<const Model>> model = loadWithOwnWeights(
      std::move(*artifact), options.weights, /*verifyContent=*/false, modelOptions);
  if (!model)
    return model.status();
  ContextOptions contextOptions;
  contextOptions.poison = poison;
  Expected<std::unique_ptr<Context>> context = Context::create(*model, contextOptions);
  if (!context)
    return context.status();
  return Loaded{std::move(*model), std::move(*context)};
}

/// Calls `run` with each case that is wanted.
Status forCases(const CheckOptions &options, const Program &program,
                const std::function<Status(const Case &)> &run) {
  std::vector<Case> known = casesFor(program);
  for (const std::string &name : options.cases)
    if (std::ranges::none_of(known, [&](const Case &one) { return one.name == name; }))
      return badInput("no case " + quoteForMessage(name) +
                      " for this artifact; gemma-gpu-check cases lists them");
  for (const Case &one : known)
    if (options.cases.empty() || std::ranges::find(options.cases, one.name) != options.cases.end())
      if (Status status = run(one); !status)
        return status;
  return {};
}

/// Distance from the recorded rows.
struct Difference {
  double rms = 0, most = 0;
  bool finite = true;
};

Difference difference(const std::vector<double> &got, const std::vector<double> &expected) {
  Difference result;
  double errors = 0, squares = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    double error = std::abs(got[i] - expected[i]);
    result.finite &= std::isfinite(got[i]);
    result.most = std::max(result.most, error);
    errors += error * error;
    squares += expected[i] * expected[i];
  }
  result.rms = squares > 0 ? std::sqrt(errors / squares) : std::sqrt(errors);
  return result;
}

} // namespace

Status printFacts(const CheckOptions &options) {
  Expected<std::shared_ptr<const cuda::Device>> device = cuda::Device::open(options.ordinal);
  if (!device)
    return device.status();
  const cuda::DeviceFacts &facts = (*device)->facts();
  Expected<uint64_t> left = (*device)->freeBytes();
  if (!left)
    return left.status();
  Json line = {
      {"device", facts.name},
      {"compute_capability", std::to_string(facts.major) + "." + std::to_string(facts.minor)},
      {"driver", facts.driverVersion},
      {"multiprocessors", facts.multiprocessors},
      {"memory_bytes", facts.memoryBytes},
      {"free_bytes", *left},
      {"shared_bytes_per_block", facts.sharedBytesPerBlock}};
  for (auto [name, which] :
       {std::pair("shared_bytes_per_multiprocessor", cuda::MaxSharedMemoryPerMultiprocessor),
        std::pair("l2_bytes", cuda::L2CacheSize),
        std::pair("memory_clock_khz", cuda::MemoryClockRate),
        std::pair("memory_bus_bits", cuda::GlobalMemoryBusWidth),
        std::pair("ecc", cuda::EccEnabled)})
    if (std::optional<int> value = (*device)->attribute(which))
      line[name] = *value;
  print(line);
  return {};
}

Status printCases(const CheckOptions &options) {
  Expected<Artifact> artifact = readArtifact(options.artifact);
  if (!artifact)
    return artifact.status();
  for (const Case &one : casesFor(artifact->program))
    std::cout << one.name << "\n";
  return {};
}

Status recordCases(const CheckOptions &options) {
  Expected<Loaded> loaded = load(options, /*poison=*/true);
  if (!loaded)
    return loaded.status();
  std::deque<Written> kept;
  SafetensorsWriter writer;
  writer.setMetadata("identity", loaded->model->artifact().identity);
  writer.setMetadata("device", loaded->model->isa());
  auto took = [&](const Written &written) {
    const Written &one = kept.emplace_back(written);
    writer.add(one.name, one.type, {one.rows, one.elements}, one.bytes);
    writer.add(one.name + sizeSuffix, ScalarType::F64, {1}, std::as_bytes(std::span(&one.rms, 1)));
  };
  Status status = forCases(options, loaded->model->program(), [&](const Case &one) {
    Status ran = runCase(*loaded->context, one, took);
    print({{"recorded", one.name}, {"arguments", kept.size()}, {"ok", ran.ok()}});
    return ran;
  });
  return status ? writer.write(options.record) : status;
}

Status checkCases(const CheckOptions &options) {
  Expected<SafetensorsFile> record = SafetensorsFile::open(options.record);
  if (!record)
    return record.status();
  Expected<Loaded> loaded = load(options, /*poison=*/true);
  if (!loaded)
    return loaded.status();
  if (auto identity = record->metadata().find("identity");
      identity == record->metadata().end() ||
      identity->second != loaded->model->artifact().identity)
    return badInput(options.record + ": recorded with another artifact");
  size_t failures = 0, compared = 0;
  double worst = 0;
  auto took = [&](const Written &written) {
    const SafetensorsEntry *entry = record->find(written.name),
                           *size = record->find(written.name + sizeSuffix);
    Json line = {{"at", written.name}, {"kernel", written.kernel}, {"nodes", written.nodes}};
    bool ok = entry && entry->type == written.type && entry->bytes == written.bytes.size() &&
              size && size->type == ScalarType::F64 && size->bytes == sizeof(double);
    if (ok) {
      std::vector<double> expected(written.values.size());
      widen(written.type, record->data(*entry), 0, std::span(expected));
      double rms = 0;
      std::memcpy(&rms, record->data(*size).data(), sizeof rms);
      Difference found = difference(written.values, expected);
      double sizeError = std::abs(written.rms - rms) / std::max(rms, 1e-30);
      ok = found.finite && found.rms <= options.bound && sizeError <= options.bound;
      worst = std::max(worst, found.rms);
      line.update({{"rms_error", found.rms}, {"max_error", found.most}, {"size_error", sizeError}});
    } else {
      line["problem"] = "not recorded, or with another shape";
    }
    line["ok"] = ok;
    print(line);
    ++compared;
    failures += !ok;
  };
  Status status = forCases(options, loaded->model->program(), [&](const Case &one) {
    size_t before = failures, seen = compared;
    worst = 0;
    Status ran = runCase(*loaded->context, one, took);
    Json line = {{"case", one.name},
                 {"device", loaded->model->isa()},
                 {"compared", compared - seen},
                 {"failed", failures - before},
                 {"worst_rms_error", worst},
                 {"ok", ran.ok() && failures == before && compared > seen}};
    if (!ran)
      line["error"] = ran.error().message;
    print(line);
    return ran;
  });
  if (!status)
    return status;
  if (failures)
    return badInput(std::to_string(failures) + " of " + std::to_string(compared) +
                    " results differ from the record by more than " +
                    std::to_string(options.bound));
  return {};
}

static void printText(const std::string &line) { std::cout << line << '\n' << std::flush; }

Status timeProducts(const CheckOptions &options) {
  Expected<Artifact> artifact = readArtifact(options.artifact);
  return artifact ? timeProjections(*artifact, options.ordinal, options.steps, printText)
                  : artifact.status();
}

Status timeLimits(const CheckOptions &options) {
  Expected<Artifact> artifact = readArtifact(options.artifact);
  return artifact ? timeCeilings(*artifact, options.ordinal, options.steps, printText)
                  : artifact.status();
}

Status timeSteps(const CheckOptions &options) {
  using Clock = std::chrono::steady_clock;
  Expected<Loaded> loaded = load(options, /*poison=*/false);
  if (!loaded)
    return loaded.status();
  Context &context = *loaded->context;
  const Program &program = loaded->model->program();
  if (options.cached >= context.contextLength())
    return usage("--cached: expected fewer than the context's " +
                 std::to_string(context.contextLength()) + " positions, got " +
                 std::to_string(options.cached));
  // Decoding reads tokens back, as greedy generation does.
  OutputsWanted wanted = program.topCount() > 0 ? OutputsWanted::Top : OutputsWanted::Logits;
  // Steps of `rows` sequences with `tokens` new ones each, as many as there is room for.
  auto measure = [&](int64_t rows, int64_t tokens) -> Status {
    std::vector<std::unique_ptr<Sequence>> sequences;
    std::vector<std::vector<int32_t>> ids;
    std::vector<StepRow> step;
    for (int64_t b = 0; b < rows; ++b) {
      Expected<std::unique_ptr<Sequence>> made = context.newSequence();
      if (!made)
        return made.status();
      sequences.push_back(std::move(*made));
      ids.push_back(caseTokens(tokens, program.config.vocab, uint64_t(b)));
    }
    int64_t before = tokens == 1 ? options.cached : 0; // a prompt begins a sequence
    for (int64_t b = 0; b < rows; ++b) {
      step.push_back({sequences[size_t(b)].get(), ids[size_t(b)], LogitsWanted::Last});
      for (int64_t left = before; left > 0; left -= std::min(left, program.limits.maxChunk)) {
        std::vector<int32_t> prompt =
            caseTokens(std::min(left, program.limits.maxChunk), program.config.vocab, uint64_t(b));
        StepRow row{sequences[size_t(b)].get(), prompt, LogitsWanted::None};
        if (Expected<StepResult> result = context.step({&row, 1}); !result)
          return result.status();
      }
    }
    int64_t most = std::min(options.steps, (context.contextLength() - before) / tokens);
    std::vector<double> micros;
    for (int64_t i = 0; i < most; ++i) {
      auto start = Clock::now();
      Expected<StepResult> result = context.step(step, wanted);
      if (!result)
        return result.status();
      micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
    std::vector<double> sorted = micros;
    std::sort(sorted.begin(), sorted.end());
    print({{"time", rows == 1 && tokens > 1 ? "prefill" : "decode"},
           {"device", loaded->model->isa()},
           {"sequences", rows},
           {"tokens", tokens},
           {"cached", before},
           {"reads", wanted == OutputsWanted::Top ? "tokens" : "logits"},
           {"steps", micros.size()},
           {"first_us", micros.front()},
           {"median_us", sorted[sorted.size() / 2]},
           {"best_us", sorted.front()}});
    return {};
  };
  for (int64_t rows : {1, 2, 4, 8, 16, 32})
    if (rows <= std::min(program.limits.maxBatch, program.limits.maxLogitRows) &&
        rows <= program.limits.maxChunk)
      if (Status status = measure(rows, 1); !status)
        return status;
  for (int64_t tokens : {16, 64, 256, 512, 1024})
    if (tokens <= program.limits.maxChunk && tokens <= context.contextLength())
      if (Status status = measure(1, tokens); !status)
        return status;
  return {};
}

} // namespace gemma::check
