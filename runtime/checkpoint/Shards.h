// Which safetensors files make up a checkpoint folder.
#pragma once

#include "runtime/support/Problems.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gemma {

/// The names, inside `folder`, of its safetensors files: model.safetensors, else every file that
/// model.safetensors.index.json names, sorted, each once. Only plain names of this folder are
/// accepted. Problems (neither file, a bad index, a file that is not there) are added to
/// `problems`.
///
/// The index is `{ "weight_map": { "TENSOR": "FILE", ... }, ... }`; which tensor it sends where
/// does not matter, as every file is read whole.
std::vector<std::string> listShards(const std::filesystem::path &folder, Problems &problems);

} // namespace gemma
