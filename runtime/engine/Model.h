// A compiled model with its weights, ready to run: immutable, shared by contexts.
#pragma once

#include "runtime/abi/KernelAbi.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/device/Executor.h"
#include "runtime/device/KernelObject.h"
#include "runtime/device/emu/EmuExecutor.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/MemoryPlan.h"
#include "runtime/support/Memory.h"
#include "runtime/support/Status.h"
#include "runtime/weights/Packer.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gemma {

struct ModelOptions {
  unsigned threads = 0;    ///< for packing; 0: the cores this process may use
  MemoryRequest memory;    ///< of the context that is to follow, to refuse early what cannot fit
  PackProgress progress{}; ///< told while weights are packed
};

class Model {
public:
  /// Loads the object for this processor, packs the weights of `checkpoint`, makes the tables.
  static Expected<std::shared_ptr<const Model>>
  load(Artifact artifact, const Checkpoint &checkpoint, const ModelOptions &options);
  /// As above with weights that are packed already (runtime/weights/PackedWeights.h).
  static Expected<std::shared_ptr<const Model>> load(Artifact artifact, WeightArena weights,
                                                     const ModelOptions &options);

  const Artifact &artifact() const { return content; }
  const Program &program() const { return content.program; }
  /// The name of the instruction set or device that runs ("avx2", "emulated sm_80").
  const std::string &isa() const { return isaName; }

  const std::byte *weight(int64_t index) const { return weights.data(size_t(index)); }
  /// Lane `angleLaneNames[lane]` of a table.
  const std::byte *tableLane(int64_t index, size_t lane) const {
    return tables.data() + tableOffsets[size_t(index) * 4 + lane];
  }
  /// What runs the kernels for one context; must not outlive the model. It knows the weights and
  /// tables already. `scratch`: of the host's workers.
  Expected<std::unique_ptr<Executor>> makeExecutor(unsigned threads, std::byte *scratch,
                                                   uint64_t scratchStride) const;
  /// What weights and tables take: plan.modelBytes().
  uint64_t bytes() const { return weights.bytes() + tables.size(); }

private:
  Model() = default;
  /// Everything but the weights; `haveWeights`: they are mapped or allocated, and take no more.
  static Expected<std::shared_ptr<Model>> prepare(Artifact artifact, const ModelOptions &options,
                                                  bool haveWeights);
  Status loadKernels();
  Status loadHostKernels();
  Status loadEmulatedKernels();
  Status makeTables();

  Artifact content;
  uint64_t plannedBytes = 0;
  std::string isaName;
  KernelObject object;
  std::vector<GemmaKernel> kernels;          ///< of a Host program
  std::vector<emu::EmulatedKernel> emulated; ///< of a Cuda program
  WeightArena weights;
  PageMemory tables;
  std::vector<uint64_t> tableOffsets;
};

/// Opens the checkpoint that an artifact's weights come from. With an empty `folder`: the recorded
/// one, whose files must be as they were at compile time (size and header hash); another one must
/// fit by its tensors. With `verifyContent` the recorded content hashes are compared as well.
Expected<Checkpoint> openArtifactWeights(const Artifact &artifact,
                                         const std::filesystem::path &folder, bool verifyContent);

/// Records where the weights are and how their files look; with `content` reads them all.
Status recordCheckpoint(Artifact &artifact, const Checkpoint &checkpoint, bool content);

} // namespace gemma
