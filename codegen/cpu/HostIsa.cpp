#include "codegen/cpu/HostIsa.h"

namespace gemma::codegen {

const std::vector<HostIsa> &hostIsas() {
  static const std::vector<HostIsa> isas = {
      {"avx512vnni",
       "+avx512vnni,+fast-dpwssd,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+avx2,+fma,"
       "+f16c,+bmi,+bmi2,-prefer-256-bit",
       512,
       32,
       true,
       true,
       HostIsa::ByteDot::Quads,
       {"avx512vnni", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx2", "fma",
        "f16c", "bmi", "bmi2"}},
      {"avx512",
       "+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd,+avx2,+fma,+f16c,+bmi,+bmi2,"
       "-prefer-256-bit",
       512,
       32,
       true,
       true,
       HostIsa::ByteDot::Pairs,
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx2", "fma", "f16c", "bmi",
        "bmi2"}},
      {"avx2",
       "+avx2,+fma,+f16c,+bmi,+bmi2",
       256,
       16,
       true,
       true,
       HostIsa::ByteDot::Pairs,
       {"avx2", "fma", "f16c", "bmi", "bmi2"}},
      {"baseline", "+sse2", 128, 16, false, false, HostIsa::ByteDot::None, {"sse2"}},
  };
  return isas;
}

const HostIsa *findHostIsa(const std::string &name) {
  for (const HostIsa &isa : hostIsas())
    if (isa.name == name)
      return &isa;
  return nullptr;
}

} // namespace gemma::codegen
