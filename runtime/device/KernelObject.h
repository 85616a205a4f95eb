// A shared object with kernels, checked and loaded.
#pragma once

#include "runtime/abi/KernelAbi.h"
#include "runtime/support/Status.h"

#include <memory>
#include <string>
#include <string_view>

namespace gemma {

/// Whether loading this ELF file does no more than map it: an x86-64 shared object that needs no
/// library and no symbol of anybody else, has no code that runs at loading or unloading
/// (initialisers, ifuncs), no thread-local storage, no segment that is writable and executable, and
/// of relocations at most relative ones. `where` starts the message.
Status checkKernelElf(std::string_view elf, const std::string &where);

/// A loaded object; unloaded when the last copy dies.
class KernelObject {
public:
  /// Checks the bytes, then loads them from sealed memory: what was checked is what runs.
  static Expected<KernelObject> load(std::string_view elf, const std::string &where);

  /// The kernel of that name; an error if there is none.
  Expected<GemmaKernel> kernel(const std::string &name) const;

private:
  std::string where;
  std::shared_ptr<void> handle;
};

} // namespace gemma
