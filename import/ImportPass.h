// The pass --gemma-import: import as a step that gemma-opt can run, for tests and debugging.
#pragma once

namespace gemma {

/// Registers `--gemma-import="config=PATH dtype=f64|f32|bf16"`: the (empty) module's content
/// becomes L1 of the config.json at PATH.
void registerImportPass();

} // namespace gemma
