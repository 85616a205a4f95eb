#include "runtime/engine/AngleTables.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace gemma {

static_assert(std::numeric_limits<long double>::digits >= 64,
              "angles up to 2^18 need more than double's precision");

void fillAngleLane(const TablePlan &table, size_t lane, std::span<std::byte> out) {
  bool high = lane < 2, cosine = lane % 2 == 0;
  size_t width = byteWidth(table.elem);
  for (int64_t column = 0; column < table.active; ++column) {
    long double frequency = std::pow(static_cast<long double>(table.theta),
                                     -2.0L * static_cast<long double>(column) /
                                         static_cast<long double>(table.denominator));
    for (int64_t row = 0; row < angleRows; ++row) {
      long double angle = static_cast<long double>(high ? row * angleRows : row) * frequency;
      long double value = cosine ? std::cos(angle) : std::sin(angle);
      std::byte *place = out.data() + size_t(row * table.active + column) * width;
      if (table.elem == ScalarType::F64) {
        double rounded = double(value);
        std::memcpy(place, &rounded, sizeof rounded);
      } else {
        float rounded = float(value);
        std::memcpy(place, &rounded, sizeof rounded);
      }
    }
  }
}

} // namespace gemma
