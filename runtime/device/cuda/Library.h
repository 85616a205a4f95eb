// The driver's library, opened at run time: a machine without it runs everything else.
#pragma once

#include "runtime/device/cuda/Api.h"
#include "runtime/support/Status.h"

#include <memory>
#include <string>

namespace gemma::cuda {

class Library {
public:
  /// Opens libcuda.so.1, or the file that GEMMA_LIBCUDA names, and looks up every entry point. The
  /// error names what is missing. A library once opened is never closed: drivers have threads.
  static Expected<std::shared_ptr<const Library>> open();

  const Api &api() const { return table; }

  /// Calls an entry point. The error has its name and the driver's name and text of the code.
  template <typename... Args, typename... Given>
  Status call(const Entry<Args...> &entry, Given... given) const {
    Result result = entry.function(given...);
    return result == Success ? Status() : Status(error(entry.name, result));
  }

  /// "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
  Error error(const char *entry, Result result) const;

private:
  Api table;
};

} // namespace gemma::cuda
