// The artifact: one file that holds everything but the weights.
//
// Byte layout, all integers little-endian:
//
//   0    8   magic "GEMMAART"
//   8    4   format version
//   12   4   kernel ABI version
//   16   8   n, bytes of the identity part
//   24   8   h, bytes of the hint part; the file has 64 + n + h bytes
//   32   32  XXH3-128 of bytes [0, 24) and of the identity part, as hex digits: the identity
//   64   n   identity part:
//              8 bytes  m, bytes of the manifest
//              m bytes  manifest: JSON with the program, the required features, versions, eos list
//                       and the sections' {"name", "offset", "bytes"}, offset from the file's start
//              the rest sections, each beginning on a multiple of 64: "object:NAME", the kernel
//                       objects; "tokenizer.json", "tokenizer_config.json"
//   64+n h   hint part: 32 hex digits XXH3-128 of the rest, then JSON: the checkpoint's folder and
//            its files as they were at compile time, or the seed of synthetic weights
//
// The identity depends on configuration, options, tensor table and tokenizer, not on where the
// checkpoint lies or how it is cut into files; so the hint stands outside of it.
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/checkpoint/GenerationConfig.h"
#include "runtime/support/File.h"
#include "runtime/support/Status.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gemma {

inline constexpr uint32_t artifactFormatVersion = 5;

/// What a kernel object is.
enum class ObjectKind : uint8_t {
  Host,     ///< an ELF shared object with all kernels, for one instruction set
  Emulator, ///< an ELF shared object made of one kernel's PTX (runtime/abi/EmuAbi.h)
  Cubin,    ///< one kernel's machine code for one CUDA architecture
  Ptx,      ///< one kernel's PTX text, for devices that are newer than the compiler
};
const char *objectKindName(ObjectKind kind);

/// Compiled kernels.
struct KernelBinary {
  std::string name; ///< once in the artifact: "avx2", which GEMMA_ISA asks for; "sm_80/KERNEL"
  ObjectKind kind = ObjectKind::Host;
  std::string kernel; ///< the kernel that it holds; empty: all
  /// Host: CPU features in LLVM's spelling that the code needs ("avx512f"); all of them.
  std::vector<std::string> features;
  std::string bytes;

  bool operator==(const KernelBinary &) const = default;
};

/// A weight file as it was at compile time.
struct RecordedFile {
  std::string name; ///< relative to the folder
  uint64_t size = 0;
  std::string headerHash;  ///< XXH3-128 of the safetensors header
  std::string contentHash; ///< of the whole file; empty if it was not read

  bool operator==(const RecordedFile &) const = default;
};

struct Artifact {
  Program program;
  std::string modelName; ///< for people
  std::string compilerVersion;
  /// What a runtime must know how to do, beyond the format version; see knownFeatures().
  std::vector<std::string> requiredFeatures;
  std::string licence;
  std::vector<int64_t> eosIds;
  /// In any order: of those that the processor can run, the one that needs the most features is
  /// taken.
  std::vector<KernelBinary> objects;
  /// Files of the checkpoint, byte for byte.
  std::optional<std::string> tokenizer, tokenizerConfig;
  std::optional<GenerationDefaults> generation;

  // Outside the identity:
  std::string checkpointFolder; ///< a hint
  std::vector<RecordedFile> checkpointFiles;
  /// In place of a checkpoint: weights are those of SyntheticTensors.
  std::optional<uint64_t> syntheticSeed;

  /// 32 hex digits; set by readArtifact().
  std::string identity;

  /// Features that this runtime can serve.
  static const std::vector<std::string> &knownFeatures();
};

/// Maps the file, checks the hash over all of it and everything inside; refuses by name what is
/// damaged, made for another version or asks for what this runtime cannot do.
Expected<Artifact> readArtifact(const std::filesystem::path &path);

/// Checks the program and writes a file that is to become `path`.
Expected<StagedFile> stageArtifact(const std::filesystem::path &path, const Artifact &artifact);
/// The same, and it becomes `path`.
Status writeArtifact(const std::filesystem::path &path, const Artifact &artifact);

/// Whether the file begins like an artifact; false too if it cannot be read.
bool looksLikeArtifact(const std::filesystem::path &path);

} // namespace gemma
