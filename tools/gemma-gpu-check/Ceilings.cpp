#include "tools/gemma-gpu-check/Ceilings.h"

#include "runtime/device/cuda/Graph.h"
#include "tools/gemma-gpu-check/DeviceBench.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace gemma::check {
namespace {

using Json = nlohmann::ordered_json;

/// Those of the 12B's 48 layers in a decode step, 5 each.
constexpr int64_t launchesOfStep = 240;
/// Bytes that are written at a time, if that much is free.
constexpr uint64_t mostBytes = 1 << 30;

Expected<Json> timeWriting(DeviceBench &bench) {
  Expected<uint64_t> left = bench.device->freeBytes();
  if (!left)
    return left.status();
  uint64_t bytes = std::clamp<uint64_t>(*left / 16, 1, mostBytes);
  Expected<cuda::DevicePointer> memory = bench.zeros(bytes);
  if (!memory)
    return memory.status();
  Expected<double> micros = bench.micros([&](uint64_t) {
    return bench.device->call(bench.device->api().memset, *memory, static_cast<unsigned char>(1),
                              size_t(bytes), bench.streamHandle());
  });
  bench.release();
  if (!micros)
    return micros.status();
  return Json{{"ceiling", "write"}, {"bytes", bytes}, {"gb_per_s", double(bytes) / *micros / 1e3}};
}

/// A kernel whose grid is empty at sizes of zero: a block of it returns at once.
Expected<int64_t> idleKernel(const Program &program) {
  for (size_t i = 0; i < program.kernels.size(); ++i)
    if (program.kernels[i].grid.evaluate({0, 0, 0, 0, 0}) == 0)
      return int64_t(i);
  return badInput("no kernel whose grid is empty for a step of nothing");
}

Expected<Json> timeLaunches(DeviceBench &bench, const Program &program) {
  Expected<int64_t> kernel = idleKernel(program);
  if (!kernel)
    return kernel.status();
  Expected<cuda::DevicePointer> nothing = bench.zeros(1);
  Expected<cuda::DevicePointer> sizes = bench.sizesOnDevice({0, 0, 0, 0, 0});
  if (!nothing || !sizes)
    return nothing ? sizes.status() : nothing.status();
  std::vector<cuda::DevicePointer> values(program.kernels[size_t(*kernel)].access.size(), *nothing);
  values.push_back(*sizes);
  auto step = [&]() -> Status {
    for (int64_t i = 0; i < launchesOfStep; ++i)
      if (Status status = bench.launch(*kernel, 1, values); !status)
        return status;
    return {};
  };
  Expected<double> stream = bench.micros([&](uint64_t) { return step(); });
  if (!stream)
    return stream.status();
  cuda::Result result = cuda::Success;
  Expected<cuda::Owned<cuda::GraphExecHandle>> graph =
      cuda::captureGraph(bench.device, bench.streamHandle(), step, result);
  if (!graph)
    return graph.status();
  Expected<double> graphs = bench.micros([&](uint64_t) {
    return bench.device->call(bench.device->api().graphLaunch, graph->get(), bench.streamHandle());
  });
  if (!graphs)
    return graphs.status();
  return Json{{"ceiling", "empty launches"},
              {"launches", launchesOfStep},
              {"stream_us_each", *stream / double(launchesOfStep)},
              {"graph_us_each", *graphs / double(launchesOfStep)}};
}

} // namespace

Status timeCeilings(const Artifact &artifact, int ordinal, int64_t launches,
                    const std::function<void(const std::string &)> &print) {
  Expected<std::shared_ptr<const cuda::Device>> device = cuda::Device::open(ordinal);
  if (!device)
    return device.status();
  DeviceBench bench(*device, launches);
  if (Status status = bench.prepare(artifact); !status)
    return status;
  for (const auto &measure : {std::function([&] { return timeWriting(bench); }), std::function([&] {
                                return timeLaunches(bench, artifact.program);
                              })}) {
    Expected<Json> line = measure();
    if (!line)
      return line.status();
    (*line)["device"] = (*device)->title();
    print(line->dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  return {};
}

} // namespace gemma::check
