#include "runtime/device/HostExecutor.h"

namespace gemma {

Status HostExecutor::run(const KernelCall &call) {
  GemmaKernel kernel = kernels[call.kernel];
  GemmaArgs args{call.sizes, call.arguments.data()};
  pool.run(call.blocks, [&](uint64_t begin, uint64_t end, unsigned worker) {
    kernel(&args, begin, end, call.scratch + worker * call.scratchStride);
  });
  return {};
}

} // namespace gemma
