// A loaded object made from PTX.
#pragma once

#include "runtime/abi/EmuAbi.h"
#include "runtime/device/KernelObject.h"
#include "runtime/support/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace gemma::emu {

class Module {
public:
  struct Kernel {
    std::string name;
    EmuKernel function = nullptr;
    uint64_t paramBytes = 0;
    std::vector<std::pair<uint64_t, uint64_t>> params; ///< offset and bytes of each
    uint64_t staticShared = 0;                         ///< bytes
    uint64_t maxThreads = 1024;
    size_t firstSite = 0, endSite = 0; ///< its instructions in the list of sites
  };
  struct Global {
    std::string name;
    void *memory = nullptr;
    uint64_t bytes = 0;
    bool constant = false;
  };

  /// Checks and loads the bytes that codegen::compilePtx made. `where` starts error messages.
  static Expected<Module> load(std::string_view object, const std::string &where);

  /// The kernel of that name, or an error that names it.
  Expected<const Kernel *> kernel(std::string_view name) const;

  const std::vector<Kernel> &kernels() const { return kernelList; }
  const std::vector<Global> &globals() const { return globalList; }
  const std::string &ptxHash() const { return hash; }
  const std::string &target() const { return targetName; } ///< sm_80

  /// The PTX line of an instruction, counted from 1, and the text of a line.
  unsigned lineOf(size_t site) const { return site < lines.size() ? lines[site] : 0; }
  std::string_view textOf(unsigned line) const;
  /// All lines: what the object was made from.
  std::string ptx() const;
  /// The line of the last .loc before an instruction; 0 if there is none.
  unsigned sourceOf(size_t site) const { return site < sources.size() ? sources[site] : 0; }
  /// The spec nodes that these lines stand for, line 1 first, as the compiler named them. A kernel
  /// that several layers share has those of the first of them.
  const std::vector<std::string> &nodes() const { return nodeNames; }

private:
  std::string where;
  std::vector<KernelObject> loaded; ///< one; a vector because an object has no empty state
  std::vector<Kernel> kernelList;
  std::vector<Global> globalList;
  std::vector<unsigned> lines, sources; ///< by site
  std::vector<std::string> text, nodeNames;
  std::string hash;
  std::string targetName;
};

} // namespace gemma::emu
