#include "runtime/weights/SyntheticTensors.h"

#include "runtime/support/BFloat16.h"

#include <cmath>

namespace gemma {

/// The step of splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators).
static uint64_t mixed(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

static constexpr uint64_t kGolden = 0x9e3779b97f4a7c15U;

/// Where a tensor's sequence of random numbers begins.
static uint64_t startOf(uint64_t seed, const std::string &name) {
  uint64_t state = mixed(seed + kGolden);
  for (char letter : name)
    state = mixed((state ^ uint8_t(letter)) + kGolden);
  return state;
}

/// The sum of four uniform numbers of 16 bits, their mean taken off: nearly normal and an integer.
static int32_t nearlyNormal(uint64_t random) {
  return int32_t((random & 0xffffU) + ((random >> 16) & 0xffffU) + ((random >> 32) & 0xffffU) +
                 (random >> 48)) -
         2 * 0xffff;
}

template <typename Real>
static void fill(uint64_t start, const TensorInfo &tensor, uint64_t first, std::span<Real> out) {
  // The sum has variance 4 * (2^16)^2 / 12.
  bool matrix = tensor.shape.size() == 2;
  auto scale =
      float(std::sqrt(3.0) / 65536 * (matrix ? 1 / std::sqrt(double(tensor.shape[1])) : 0.1));
  float base = matrix ? 0.0F : 1.0F;
  for (size_t i = 0; i < out.size(); ++i) {
    auto normal = float(nearlyNormal(mixed(start + (first + i) * kGolden)));
    out[i] = Real(bf16ToF32(f32ToBf16(base + normal * scale)));
  }
}

SyntheticTensors::SyntheticTensors(const ModelConfig &config, uint64_t seed)
    : table(requiredTensors(config)), seed(seed) {}

void SyntheticTensors::read(const std::string &name, const TensorInfo &tensor, uint64_t first,
                            std::span<float> out) const {
  fill(startOf(seed, name), tensor, first, out);
}

void SyntheticTensors::read(const std::string &name, const TensorInfo &tensor, uint64_t first,
                            std::span<double> out) const {
  fill(startOf(seed, name), tensor, first, out);
}

} // namespace gemma
