// Where the values of weights come from: a checkpoint's files, or a generator.
#pragma once

#include "runtime/checkpoint/Checkpoint.h"

#include <span>
#include <string>

namespace gemma {

/// The tensors of a model by canonical name. Reading is safe from many threads.
class TensorSource {
public:
  TensorSource() = default;
  TensorSource(const TensorSource &) = delete;
  TensorSource &operator=(const TensorSource &) = delete;
  virtual ~TensorSource() = default;

  /// Names, shapes and types. What read() is given is an entry of this.
  virtual const TensorTable &tensors() const = 0;
  /// What to call it in messages.
  virtual std::string title() const = 0;

  /// Elements [first, first + out.size()) in row-major order, which must lie in the tensor. A type
  /// that does not widen exactly is rounded.
  virtual void read(const std::string &name, const TensorInfo &tensor, uint64_t first,
                    std::span<float> out) const = 0;
  virtual void read(const std::string &name, const TensorInfo &tensor, uint64_t first,
                    std::span<double> out) const = 0;
  /// The tensor's bytes if they lie somewhere; else nothing.
  virtual std::span<const std::byte> stored(const TensorInfo &) const { return {}; }
  /// The tensor will not be read any more.
  virtual void release(const std::string &) const {}
};

/// Those of an open checkpoint, which must outlive this.
class CheckpointTensors final : public TensorSource {
public:
  explicit CheckpointTensors(const Checkpoint &checkpoint) : checkpoint(checkpoint) {}

  const TensorTable &tensors() const override { return checkpoint.tensors(); }
  std::string title() const override { return checkpoint.folder().string(); }
  void read(const std::string &name, const TensorInfo &tensor, uint64_t first,
            std::span<float> out) const override;
  void read(const std::string &name, const TensorInfo &tensor, uint64_t first,
            std::span<double> out) const override;
  std::span<const std::byte> stored(const TensorInfo &tensor) const override {
    return checkpoint.data(tensor);
  }
  /// Its pages leave memory.
  void release(const std::string &name) const override;

private:
  const Checkpoint &checkpoint;
};

} // namespace gemma
