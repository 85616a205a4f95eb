#include "runtime/checkpoint/SafetensorsWriter.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/support/Json.h"

#include <set>

namespace gemma {

void SafetensorsWriter::add(std::string name, ScalarType type, std::vector<int64_t> shape,
                            Stream stream) {
  tensors.push_back({std::move(name), type, std::move(shape), std::move(stream)});
}

void SafetensorsWriter::add(std::string name, ScalarType type, std::vector<int64_t> shape,
                            std::span<const std::byte> data) {
  add(std::move(name), type, std::move(shape),
      [data](FileWriter &writer) { return writer.write(data); });
}

void SafetensorsWriter::setMetadata(std::string key, std::string value) {
  metadata[std::move(key)] = std::move(value);
}

/// The JSON text, padded; `sizes` gets the bytes of each tensor.
Expected<std::string> SafetensorsWriter::makeHeader(std::vector<uint64_t> &sizes) const {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  std::set<std::string_view> names;
  uint64_t offset = 0;
  for (const Tensor &tensor : tensors) {
    if (tensor.name == "__metadata__" || !names.insert(tensor.name).second)
      return internalError("cannot write two safetensors entries named " +
                           quoteForMessage(tensor.name));
    uint64_t bytes = byteWidth(tensor.type);
    bool fits = true;
    for (int64_t dim : tensor.shape)
      fits = fits && dim >= 0 && !__builtin_mul_overflow(bytes, uint64_t(dim), &bytes);
    uint64_t end = 0;
    if (!fits || __builtin_add_overflow(offset, bytes, &end))
      return internalError("cannot write tensor " + quoteForMessage(tensor.name) + " of shape " +
                           shapeText(tensor.shape));
    header[tensor.name] = {{"dtype", safetensorsName(tensor.type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, end}}};
    sizes.push_back(bytes);
    offset = end;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception &) { // the only one: a name or text that is no UTF-8
    return internalError("cannot write a safetensors header with a name that is no UTF-8");
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

Status SafetensorsWriter::write(const std::filesystem::path &path) const {
  std::vector<uint64_t> sizes;
  Expected<std::string> header = makeHeader(sizes);
  if (!header)
    return header.error();
  return writeFileAtomically(path, [&](FileWriter &writer) -> Status {
    uint64_t length = header->size();
    if (Status status = writer.write(std::as_bytes(std::span(&length, 1))); !status)
      return status;
    if (Status status = writer.write(*header); !status)
      return status;
    for (size_t i = 0; i < tensors.size(); ++i) {
      uint64_t begin = writer.position();
      if (Status status = tensors[i].stream(writer); !status)
        return status;
      uint64_t written = writer.position() - begin;
      if (written != sizes[i])
        return internalError(path.string() + ": tensor " + quoteForMessage(tensors[i].name) +
                             ": expected " + std::to_string(sizes[i]) + " bytes, got " +
                             std::to_string(written));
    }
    return {};
  });
}

} // namespace gemma
