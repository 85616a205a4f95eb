#include "runtime/device/DeviceChoice.h"

#include "runtime/support/Json.h"

#include <charconv>

namespace gemma {

Expected<DeviceChoice> DeviceChoice::parse(std::string_view text) {
  if (text == "auto")
    return DeviceChoice{Kind::Auto};
  if (text == "host")
    return DeviceChoice{Kind::Host};
  if (text == "emu")
    return DeviceChoice{Kind::Emulated};
  constexpr std::string_view cuda = "cuda:";
  if (text.starts_with(cuda)) {
    std::string_view number = text.substr(cuda.size());
    unsigned ordinal = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), ordinal);
    if (!number.empty() && error == std::errc() && end == number.data() + number.size() &&
        ordinal <= 1023)
      return DeviceChoice{Kind::Cuda, int(ordinal)};
  }
  return usage("device: expected auto, host, cuda:N or emu, got " + quoteForMessage(text));
}

std::string DeviceChoice::text() const {
  switch (kind) {
  case Kind::Auto:
    return "auto";
  case Kind::Host:
    return "host";
  case Kind::Cuda:
    return "cuda:" + std::to_string(ordinal);
  case Kind::Emulated:
    return "emu";
  }
  return "auto";
}

} // namespace gemma
