// Which device a model is to run on, as people say it.
#pragma once

#include "runtime/support/Status.h"

#include <string>
#include <string_view>

namespace gemma {

struct DeviceChoice {
  enum class Kind {
    Auto,     ///< the host, or a CUDA device, or the emulated one: by the artifact and the machine
    Host,     ///< the processor's cores
    Cuda,     ///< CUDA device `ordinal`
    Emulated, ///< the emulated CUDA device
  };
  Kind kind = Kind::Auto;
  int ordinal = 0;

  /// "auto", "host", "cuda:N", "emu".
  static Expected<DeviceChoice> parse(std::string_view text);
  std::string text() const;
};

} // namespace gemma
