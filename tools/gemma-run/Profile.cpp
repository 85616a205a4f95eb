#include "tools/gemma-run/Profile.h"

#include "runtime/support/File.h"
#include "tools/measure/Limits.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>

namespace gemma::run {

using Json = nlohmann::ordered_json;

/// Read rates are measured in a buffer that no cache holds.
static constexpr uint64_t limitBufferBytes = uint64_t(512) << 20;
static constexpr int limitRounds = 3;

Profile::Profile(Context &context, const Sequence &sequence)
    : context(context), sequence(sequence) {
  context.observeSteps([this](const StepResult &step) { beginStep(step); });
  context.observeLaunches([this](size_t, size_t launch) { afterLaunch(launch); });
}

void Profile::stop() {
  context.observeSteps(nullptr);
  context.observeLaunches(nullptr);
}

void Profile::beginStep(const StepResult &step) {
  Step entry;
  entry.variant = step.variant;
  entry.shape.rows = {{sequence.length(), step.tokens}};
  entry.shape.logitRows = step.logitRows;
  entry.firstEvent = events.size();
  entry.begin = entry.end = mark = now();
  steps.push_back(std::move(entry));
}

void Profile::afterLaunch(size_t launch) {
  double seconds = now() - mark;
  events.push_back({uint32_t(steps.size() - 1), uint32_t(launch), mark, seconds});
  steps.back().end = mark + seconds; // as the trace computes the launch's end
  mark = now();                      // what this took is nobody's
}

Status Profile::measureLimits() {
  uint64_t bytes = std::min(limitBufferBytes, availableMemory() / 4);
  Expected<measure::LimitMeter> meter =
      measure::LimitMeter::create(bytes, context.threads(), /*onlyMost=*/true);
  if (!meter)
    return meter.status();
  measure::Progress progress;
  for (int round = 0; round < limitRounds; ++round)
    meter->measure(progress);
  limits = {meter->most().read.best(), meter->most().flops.best()};
  return {};
}

double Profile::seconds() const {
  return steps.empty() ? 0 : steps.back().end - steps.front().begin;
}

std::vector<LaunchKindTime> Profile::kinds() const {
  const Program &program = context.model().program();
  std::map<std::pair<size_t, std::string>, LaunchKindTime> byKind;
  for (const Event &event : events) {
    const Step &step = steps[event.step];
    const Variant &variant = program.variants[step.variant];
    const Launch &launch = variant.launches[event.launch];
    std::string nodes = measure::nodesOf(program, launch);
    LaunchKindTime &kind = byKind[{step.variant, nodes}];
    if (kind.launches == 0) {
      kind.variant = variant.name;
      kind.nodes = std::move(nodes);
    }
    measure::Cost cost = measure::launchCost(program, launch, step.shape);
    ++kind.launches;
    kind.seconds += event.seconds;
    kind.cost += cost;
    if (limits.readBytes > 0 && limits.flops > 0)
      kind.leastSeconds += std::max(cost.bytes / limits.readBytes, cost.flops / limits.flops);
  }
  std::vector<LaunchKindTime> out;
  out.reserve(byKind.size());
  for (auto &[key, kind] : byKind)
    out.push_back(std::move(kind));
  std::ranges::sort(out, std::greater<>(), &LaunchKindTime::seconds);
  return out;
}

/// A kind with its figures: of all it took `share`, and 1 is as fast as the limit.
static double fractionOf(const LaunchKindTime &kind) {
  return kind.seconds > 0 ? kind.leastSeconds / kind.seconds : 0;
}

static double perSecond(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

std::string Profile::text() const {
  char line[256];
  std::snprintf(line, sizeof line,
                "profile: %zu steps in %.3f s, %u threads; read %.1f GB/s, f32 %.1f GFLOP/s\n",
                steps.size(), seconds(), context.threads(), limits.readBytes / 1e9,
                limits.flops / 1e9);
  std::string out = line;
  out += " launches   seconds  share       MB    GB/s  GFLOP/s  of limit  variant: nodes\n";
  double launched = 0;
  for (const LaunchKindTime &kind : kinds()) {
    launched += kind.seconds;
    std::snprintf(line, sizeof line, "%9llu %9.4f %5.1f%% %8.1f %7.2f %8.2f %9.2f  ",
                  static_cast<unsigned long long>(kind.launches), kind.seconds,
                  100 * perSecond(kind.seconds, seconds()), kind.cost.bytes / 1e6,
                  perSecond(kind.cost.bytes, kind.seconds) / 1e9,
                  perSecond(kind.cost.flops, kind.seconds) / 1e9, fractionOf(kind));
    out += line + kind.variant + ": " + kind.nodes + "\n";
  }
  std::snprintf(line, sizeof line,
                "%9s %9.4f %5.1f%%  between launches: inputs, sampling, output\n", "",
                seconds() - launched, 100 * perSecond(seconds() - launched, seconds()));
  return out + line;
}

Json Profile::json() const {
  Json list = Json::array();
  for (const LaunchKindTime &kind : kinds())
    list.push_back({{"variant", kind.variant},
                    {"nodes", kind.nodes},
                    {"launches", kind.launches},
                    {"seconds", kind.seconds},
                    {"share", perSecond(kind.seconds, seconds())},
                    {"bytes", kind.cost.bytes},
                    {"flops", kind.cost.flops},
                    {"bytes_per_second", perSecond(kind.cost.bytes, kind.seconds)},
                    {"flops_per_second", perSecond(kind.cost.flops, kind.seconds)},
                    {"of_limit", fractionOf(kind)}});
  return {{"seconds", seconds()},
          {"steps", steps.size()},
          {"threads", context.threads()},
          {"limits",
           {{"read_bytes_per_second", limits.readBytes}, {"f32_flops_per_second", limits.flops}}},
          {"kinds", std::move(list)}};
}

/// One complete event. Times are microseconds, here of whole nanoseconds, which viewers count in:
/// an event that ends with the one around it must not seem to end after it.
static Json traceEvent(const std::string &name, const std::string &category, double begin,
                       double end, Json arguments) {
  auto nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"ts", double(nanoseconds(begin)) / 1000},
          {"dur", double(nanoseconds(end) - nanoseconds(begin)) / 1000},
          {"pid", 1},
          {"tid", 1},
          {"args", std::move(arguments)}};
}

Status Profile::writeTrace(const std::filesystem::path &path) const {
  const Program &program = context.model().program();
  return writeFileAtomically(path, [&](FileWriter &file) -> Status {
    if (Status status = file.write(std::string_view("{\"displayTimeUnit\": \"ms\", "
                                                    "\"traceEvents\": [\n"));
        !status)
      return status;
    for (size_t s = 0; s < steps.size(); ++s) {
      const Step &step = steps[s];
      const Variant &variant = program.variants[step.variant];
      const measure::StepShape::Row &row = step.shape.rows.front();
      Json event = traceEvent(
          "step " + std::to_string(s), variant.name, step.begin, step.end,
          {{"cached", row.cached}, {"tokens", row.fresh}, {"logit_rows", step.shape.logitRows}});
      if (Status status = file.write((s == 0 ? "" : ",\n") + event.dump()); !status)
        return status;
      size_t end = s + 1 < steps.size() ? steps[s + 1].firstEvent : events.size();
      for (size_t e = step.firstEvent; e < end; ++e) {
        const Launch &launch = variant.launches[events[e].launch];
        measure::Cost cost = measure::launchCost(program, launch, step.shape);
        event = traceEvent(measure::nodesOf(program, launch), variant.name, events[e].begin,
                           events[e].begin + events[e].seconds,
                           {{"nodes", launch.nodes},
                            {"kernel", program.kernels[size_t(launch.kernel)].name},
                            {"bytes", cost.bytes},
                            {"flops", cost.flops}});
        if (Status status = file.write(",\n" + event.dump()); !status)
          return status;
      }
    }
    return file.write(std::string_view("\n]}\n"));
  });
}

} // namespace gemma::run
