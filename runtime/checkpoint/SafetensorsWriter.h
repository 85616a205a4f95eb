// Writer of one safetensors file; the layout is in Safetensors.h.
#pragma once

#include "runtime/support/File.h"
#include "runtime/support/ScalarType.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace gemma {

/// Collects tensors, then writes them in the order given: the header from names, types and shapes,
/// then the data, which may be made while it is written. The header is padded so that data begins
/// on a multiple of 8 bytes.
class SafetensorsWriter {
public:
  /// Writes a tensor's bytes: exactly product(shape) elements, row-major, little-endian.
  using Stream = std::function<Status(FileWriter &)>;

  void add(std::string name, ScalarType type, std::vector<int64_t> shape, Stream stream);
  /// `data` must stay valid until write() returns.
  void add(std::string name, ScalarType type, std::vector<int64_t> shape,
           std::span<const std::byte> data);
  void setMetadata(std::string key, std::string value);

  /// Writes to a temporary name and renames. Errors: two tensors of one name, a name that is no
  /// UTF-8 or is "__metadata__", a negative dimension, data of another length than the shape says,
  /// and what the system reports.
  Status write(const std::filesystem::path &path) const;

private:
  struct Tensor {
    std::string name;
    ScalarType type;
    std::vector<int64_t> shape;
    Stream stream;
  };

  Expected<std::string> makeHeader(std::vector<uint64_t> &sizes) const;

  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

} // namespace gemma
