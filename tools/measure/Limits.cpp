#include "tools/measure/Limits.h"

#include "runtime/device/CpuFeatures.h"
#include "runtime/engine/MemoryPlan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>

namespace gemma::measure {
namespace {

/// Bytes of a block of the pool's grid: large enough that handing it out costs nothing.
constexpr uint64_t blockBytes = 1 << 20;
/// Seconds that a round of multiply-adds takes.
constexpr double flopSeconds = 0.1;
/// Times that a round reads the buffer in each way: what is compared with it takes as long or
/// longer, and a quiet moment that is too short for that is not the machine's rate.
constexpr int readPasses = 3;

/// Loops return what they computed; it goes here, so that no compiler leaves them out.
std::atomic<uint64_t> sink{0};

template <typename Body> double timed(WorkerPool &pool, uint64_t blocks, Body &&body) {
  Stopwatch watch;
  pool.run(blocks, [&](uint64_t begin, uint64_t end, unsigned) { body(begin, end - begin); });
  return watch.seconds();
}

double readSeconds(WorkerPool &pool, std::span<const std::byte> buffer,
                   uint64_t (*read)(const char *, size_t)) {
  const char *data = reinterpret_cast<const char *>(buffer.data());
  return timed(pool, buffer.size() / blockBytes, [&](uint64_t begin, uint64_t count) {
    sink += read(data + begin * blockBytes, count * blockBytes);
  });
}

/// The best of all ways to read, which take turns.
double readRate(WorkerPool &pool, std::span<const std::byte> buffer, const LimitLoops &loops) {
  const std::array ways = {loops.read, loops.readPrefetched, loops.readSpread,
                           loops.readSpreadPrefetched};
  std::array<double, ways.size()> seconds{};
  for (int pass = 0; pass < readPasses; ++pass)
    for (size_t way = 0; way < ways.size(); ++way)
      seconds[way] += readSeconds(pool, buffer, ways[way]);
  return double(buffer.size()) * readPasses / *std::ranges::min_element(seconds);
}

/// From the first half into the second one.
double copyRate(WorkerPool &pool, std::span<std::byte> buffer,
                void (*copy)(char *, const char *, size_t)) {
  char *data = reinterpret_cast<char *>(buffer.data());
  uint64_t blocks = buffer.size() / 2 / blockBytes, half = blocks * blockBytes;
  double seconds = timed(pool, blocks, [&](uint64_t begin, uint64_t count) {
    copy(data + half + begin * blockBytes, data + begin * blockBytes, count * blockBytes);
  });
  return double(half) * 2 / seconds;
}

double flopRate(WorkerPool &pool, const LimitLoops &loops) {
  constexpr uint64_t iterationsOfBlock = 50'000;
  auto run = [&](uint64_t blocks) {
    return timed(pool, blocks, [&](uint64_t, uint64_t count) {
      sink += uint64_t(loops.multiplyAdd(count * iterationsOfBlock));
    });
  };
  uint64_t probe = uint64_t(pool.threads()) * 8;
  double seconds = run(probe);
  uint64_t blocks = std::max<uint64_t>(probe, uint64_t(flopSeconds / seconds * double(probe)));
  seconds = run(blocks);
  return double(blocks) * iterationsOfBlock * double(loops.flopsPerIteration) / seconds;
}

} // namespace

const LimitLoops &bestLimitLoops() {
  const auto &features = cpuFeatures();
  if (features.contains("avx512f"))
    return limitLoopsAvx512;
  if (features.contains("avx2") && features.contains("fma"))
    return limitLoopsAvx2;
  return limitLoopsSse2;
}

Expected<LimitMeter> LimitMeter::create(uint64_t bytes, unsigned threads, bool onlyMost) {
  bytes = std::max<uint64_t>((bytes + (2 << 20) - 1) >> 21, 1) << 21;
  if (bytes > availableMemory())
    return badInput("the buffer to measure with takes " + std::to_string(bytes >> 20) +
                    " MiB, available are " + std::to_string(availableMemory() >> 20) +
                    " MiB; --size takes less");
  LimitMeter meter;
  meter.loops = &bestLimitLoops();
  Expected<PageMemory> memory = PageMemory::allocate(bytes, "buffer to measure with");
  if (!memory)
    return memory.status();
  meter.buffer = std::move(*memory);
  // Pages that were never written are all the same page of zeros.
  std::memset(meter.buffer.data(), 0x5a, size_t(meter.buffer.size()));
  std::vector<unsigned> counts = {threads};
  if (threads > 1 && !onlyMost)
    counts = {1, threads};
  for (unsigned count : counts) {
    meter.pools.push_back(std::make_unique<WorkerPool>(count));
    meter.limits.push_back({count, {}, {}, {}});
  }
  return meter;
}

void LimitMeter::measure(Progress &progress) {
  for (size_t i = 0; i < limits.size() && !interrupted; ++i) {
    LimitSeries &limit = limits[i];
    WorkerPool &pool = *pools[i];
    progress.update("limits of " + std::to_string(limit.threads) +
                    (limit.threads == 1 ? " thread" : " threads"));
    limit.read.add(readRate(pool, buffer.bytes(), *loops));
    limit.copy.add(std::max(copyRate(pool, buffer.bytes(), loops->copy),
                            copyRate(pool, buffer.bytes(), loops->copyStreaming)));
    limit.flops.add(flopRate(pool, *loops));
  }
}

double LimitMeter::steadiness() const {
  double lowest = 1;
  for (const LimitSeries &limit : limits)
    for (const Series *series : {&limit.read, &limit.copy, &limit.flops})
      lowest = std::min(lowest, series->steadiness());
  return lowest;
}

Json LimitMeter::json() const {
  Json list = Json::array();
  for (const LimitSeries &limit : limits)
    list.push_back({{"threads", limit.threads},
                    {"read_bytes_per_second", limit.read.json()},
                    {"copy_bytes_per_second", limit.copy.json()},
                    {"f32_flops_per_second", limit.flops.json()}});
  return {{"instruction_set", isa()}, {"buffer_bytes", bufferBytes()}, {"threads", list}};
}

void LimitMeter::print() const {
  std::printf("limits: %s, %s, buffer of %llu MiB; median (best)\n", cpuName().c_str(), isa(),
              static_cast<unsigned long long>(bufferBytes() >> 20));
  for (const LimitSeries &limit : limits)
    std::printf("  %3u thread%s  read %6.1f (%.1f) GB/s   copy %6.1f (%.1f) GB/s   f32 %7.1f "
                "(%.1f) GFLOP/s\n",
                limit.threads, limit.threads == 1 ? " " : "s", limit.read.median() / 1e9,
                limit.read.best() / 1e9, limit.copy.median() / 1e9, limit.copy.best() / 1e9,
                limit.flops.median() / 1e9, limit.flops.best() / 1e9);
}

} // namespace gemma::measure
