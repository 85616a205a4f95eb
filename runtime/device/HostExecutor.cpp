#include "runtime/device/HostExecutor.h"

namespace gemma {

Status HostExecutor::run(const KernelCall &call) {
  GemmaKernel kernel = kernels[call.kernel];
  uint64_t launch = ++launches;
  pool.run(call.blocks, [&](uint64_t begin, uint64_t end, unsigned worker) {
    uint64_t &last = workers[worker].launch;
    GemmaArgs args{call.sizes, call.arguments.data(), last == launch};
    last = launch;
    kernel(&args, begin, end, call.scratch + worker * call.scratchStride);
  });
  return {};
}

} // namespace gemma
