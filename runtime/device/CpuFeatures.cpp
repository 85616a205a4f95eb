#include "runtime/device/CpuFeatures.h"

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gemma {

#if defined(__x86_64__)

namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

/// XCR0: the register states that the system saves.
uint64_t savedStates() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

std::set<std::string, std::less<>> detect() {
  std::set<std::string, std::less<>> found;
  auto add = [&](uint32_t word, int bit, const char *name) {
    if (word >> bit & 1)
      found.insert(name);
  };
  // Intel SDM volume 2A, CPUID.
  Registers one = cpuid(1, 0), seven = cpuid(7, 0), sevenOne = cpuid(7, 1);
  add(one.edx, 25, "sse");
  add(one.edx, 26, "sse2");
  add(one.ecx, 0, "sse3");
  add(one.ecx, 9, "ssse3");
  add(one.ecx, 19, "sse4.1");
  add(one.ecx, 20, "sse4.2");
  add(one.ecx, 23, "popcnt");
  add(seven.ebx, 3, "bmi"); // LLVM's name
  add(seven.ebx, 3, "bmi1");
  add(seven.ebx, 8, "bmi2");
  Registers extended = cpuid(0x80000001, 0);
  add(extended.ecx, 5, "lzcnt");
  if (!(one.ecx >> 27 & 1)) // osxsave
    return found;
  uint64_t states = savedStates();
  if ((states & 0x6) != 0x6) // xmm, ymm
    return found;
  add(one.ecx, 28, "avx");
  add(one.ecx, 12, "fma");
  add(one.ecx, 29, "f16c");
  add(seven.ebx, 5, "avx2");
  add(sevenOne.eax, 4, "avxvnni");
  if ((states & 0xe6) != 0xe6) // and opmask, zmm
    return found;
  add(seven.ebx, 16, "avx512f");
  add(seven.ebx, 17, "avx512dq");
  add(seven.ebx, 21, "avx512ifma");
  add(seven.ebx, 28, "avx512cd");
  add(seven.ebx, 30, "avx512bw");
  add(seven.ebx, 31, "avx512vl");
  add(seven.ecx, 1, "avx512vbmi");
  add(seven.ecx, 6, "avx512vbmi2");
  add(seven.ecx, 11, "avx512vnni");
  add(seven.ecx, 12, "avx512bitalg");
  add(seven.ecx, 14, "avx512vpopcntdq");
  add(seven.edx, 23, "avx512fp16");
  add(sevenOne.eax, 5, "avx512bf16");
  return found;
}

} // namespace

std::string_view missingFeature(std::span<const std::string> needed) {
  for (const std::string &feature : needed)
    if (!cpuFeatures().contains(feature))
      return feature;
  return {};
}

std::string cpuName() {
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    Registers r = cpuid(0x80000002 + i, 0);
    std::memcpy(text + size_t(16) * i, &r, 16);
  }
  std::string name(text);
  size_t begin = name.find_first_not_of(' ');
  return begin == std::string::npos ? "x86-64" : name.substr(begin);
}

#else

static std::set<std::string, std::less<>> detect() { return {}; }
std::string cpuName() { return "unknown processor"; }

#endif

const std::set<std::string, std::less<>> &cpuFeatures() {
  static const std::set<std::string, std::less<>> features = detect();
  return features;
}

} // namespace gemma
