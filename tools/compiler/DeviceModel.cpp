#include "tools/compiler/DeviceModel.h"

#include <algorithm>

namespace gemma::compiler {

static const std::vector<DeviceModel> &deviceModels() {
  // What an H200 is assumed to reach is 0.9 of its memory's and 0.8 of its tensor cores' peak; the
  // same shares are taken of the other devices.
  static const std::vector<DeviceModel> models = {
      {"sm_80", "A100 SXM 80 GB", 108, 64, 32, 164 << 10, 0.9 * 2.04e12, 0.8 * 312e12,
       "0.9 of 2.04 TB/s, 0.8 of 312 TFLOP/s (NVIDIA A100 data sheet)"},
      {"sm_90", "H200 SXM", 132, 64, 32, 228 << 10, 4.3e12, 790e12,
       "0.9 of 4.8 TB/s, 0.8 of 989 TFLOP/s (NVIDIA H200 data sheet)"},
      {"sm_100", "B200", 148, 64, 32, 228 << 10, 0.9 * 8e12, 0.8 * 2250e12,
       "0.9 of 8 TB/s, 0.8 of 2250 TFLOP/s (NVIDIA DGX B200 data sheet)"},
      {"sm_120", "GeForce RTX 5090", 170, 48, 24, 100 << 10, 0.9 * 1.792e12, 0.8 * 209.5e12,
       "0.9 of 1.79 TB/s, 0.8 of 209.5 TFLOP/s (NVIDIA RTX Blackwell GPU architecture)"},
  };
  return models;
}

const DeviceModel *findDeviceModel(const std::string &chip) {
  for (const DeviceModel &model : deviceModels())
    if (model.chip == chip)
      return &model;
  return nullptr;
}

static int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

int64_t blocksOfProcessor(const DeviceModel &device, const BlockNeeds &block) {
  int64_t warps = roundUp(block.threads, 32) / 32;
  if (warps == 0)
    return 0;
  int64_t blocks = std::min(device.blocks, device.warps / warps);
  blocks = std::min(blocks, device.sharedBytes / roundUp(block.sharedBytes + 1024, 128));
  if (block.registers > 0) {
    int64_t ofWarp = roundUp(block.registers * 32, 256);
    blocks = std::min(blocks, 65536 / 4 / ofWarp * 4 / warps);
  }
  return blocks;
}

} // namespace gemma::compiler
