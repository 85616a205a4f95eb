// Which of a program's variants a step runs, and the largest step that a variant runs.
#pragma once

#include "runtime/abi/Program.h"

#include <optional>

namespace gemma {

/// Whether a step of these sizes meets all conditions of a variant.
bool takes(const Variant &variant, const StepSizes &sizes);

/// The index of the variant that a step runs; the number of variants if it is none.
size_t variantFor(const Program &program, const StepSizes &sizes);

/// The sizes that bound every step of a variant for one new token a sequence: as many sequences as
/// it takes of `batch`, one logit row each, and the longest context. Nothing if longer rows run the
/// variant too: their steps differ too much to be launched as if they were the largest.
std::optional<StepSizes> largestDecodeStep(const Variant &variant, const ProgramLimits &limits,
                                           int64_t batch);

} // namespace gemma
