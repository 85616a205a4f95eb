// A compiled model with its weights, ready to run: immutable, shared by contexts.
#pragma once

#include "runtime/abi/KernelAbi.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/device/DeviceChoice.h"
#include "runtime/device/Executor.h"
#include "runtime/device/KernelObject.h"
#include "runtime/device/emu/EmuExecutor.h"
#include "runtime/engine/Artifact.h"
#include "runtime/engine/MemoryPlan.h"
#include "runtime/support/Memory.h"
#include "runtime/support/Status.h"
#include "runtime/weights/WeightArena.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace gemma {

class CudaModel;

struct ModelOptions {
  unsigned threads = 0;    ///< for packing; 0: the cores this process may use
  MemoryRequest memory;    ///< of the context that is to follow, to refuse early what cannot fit
  PackProgress progress{}; ///< told while weights are packed
  /// Auto: an artifact for the host runs there; one for CUDA devices on cuda:0 if that can be used,
  /// else, if it has code for it, on the emulated device.
  DeviceChoice device{};
};

class Model {
public:
  /// Loads the kernels for the device, packs the weights from `tensors` (for a device with memory
  /// of its own one at a time), makes the tables. A device that the artifact was not compiled for
  /// is a usage error.
  static Expected<std::shared_ptr<const Model>> load(Artifact artifact, const TensorSource &tensors,
                                                     const ModelOptions &options);
  static Expected<std::shared_ptr<const Model>>
  load(Artifact artifact, const Checkpoint &checkpoint, const ModelOptions &options) {
    return load(std::move(artifact), CheckpointTensors(checkpoint), options);
  }
  /// As above with weights that are packed already (runtime/weights/PackedWeights.h).
  static Expected<std::shared_ptr<const Model>> load(Artifact artifact, WeightArena weights,
                                                     const ModelOptions &options);

  const Artifact &artifact() const { return content; }
  const Program &program() const { return content.program; }
  /// The name of the instruction set or device that runs ("avx2", "emulated sm_80", "cuda:0 (NVIDIA
  /// H200), code for sm_90").
  const std::string &isa() const { return isaName; }
  /// Why the choice Auto did not take a CUDA device; empty if it did or was not asked.
  const std::string &whyNotCuda() const { return cudaProblem; }

  /// Where weights and tables are, for kernels: of a CUDA device not for the host to read.
  const std::byte *weight(int64_t index) const {
    return weightStart + weightOffsets[size_t(index)];
  }
  /// Lane `angleLaneNames[lane]` of a table.
  const std::byte *tableLane(int64_t index, size_t lane) const {
    return tableStart + tableOffsets[size_t(index) * 4 + lane];
  }
  /// What runs the kernels for one context; must not outlive the model. It knows the weights and
  /// tables already.
  Expected<std::unique_ptr<Executor>> makeExecutor(unsigned threads) const;
  /// Refuses with the numbers if the device has no such room for a context.
  Status checkMemory(uint64_t bytes, const MemoryPlan &plan) const;
  /// What weights and tables take: plan.modelBytes().
  uint64_t bytes() const { return weightBytes + tableBytes; }

  ~Model();

private:
  Model();
  /// Everything but the weights; `haveWeights`: they are mapped or allocated, and take no more.
  static Expected<std::shared_ptr<Model>> prepare(Artifact artifact, const ModelOptions &options,
                                                  bool haveWeights);
  Status loadKernels(const DeviceChoice &choice);
  Status loadHostKernels();
  Status loadCudaKernels(const DeviceChoice &choice);
  Status loadEmulatedKernels();
  bool hasObjects(ObjectKind kind) const;
  Status makeTables();
  Status moveTables();

  Artifact content;
  std::string isaName;
  KernelObject object;
  std::vector<GemmaKernel> kernels;          ///< of a Host program
  std::vector<emu::EmulatedKernel> emulated; ///< of a Cuda program
  std::unique_ptr<CudaModel> cuda;           ///< if it runs on a CUDA device
  std::string cudaProblem;
  WeightArena weights; ///< empty on a CUDA device
  PageMemory tables;   ///< likewise
  const std::byte *weightStart = nullptr, *tableStart = nullptr;
  uint64_t weightBytes = 0, tableBytes = 0;
  std::vector<uint64_t> weightOffsets, tableOffsets;
};

/// Opens the checkpoint that an artifact's weights come from. With an empty `folder`: the recorded
/// one, whose files must be as they were at compile time (size and header hash); another one must
/// fit by its tensors. With `verifyContent` the recorded content hashes are compared as well.
Expected<Checkpoint> openArtifactWeights(const Artifact &artifact,
                                         const std::filesystem::path &folder, bool verifyContent);

/// Loads the artifact with the weights that it was made for: its synthetic ones, if it has such and
/// `folder` is empty, else those of openArtifactWeights().
Expected<std::shared_ptr<const Model>> loadWithOwnWeights(Artifact artifact,
                                                          const std::filesystem::path &folder,
                                                          bool verifyContent,
                                                          const ModelOptions &options);

/// What the artifact's weights are made of, as packed weight files record it: a hash of the
/// recorded files' headers and contents, or of the synthetic seed; empty if it records neither.
std::string weightsOrigin(const Artifact &artifact);

/// Records where the weights are and how their files look; with `content` reads them all.
Status recordCheckpoint(Artifact &artifact, const Checkpoint &checkpoint, bool content);

} // namespace gemma
