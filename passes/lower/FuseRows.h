// Makes one kernel.rows of several that pass their rows on.
#pragma once

#include "dialect/kernel/Kernel.h"

namespace gemma::passes {

/// Merges each kernel.rows into an earlier one of the same domain whose rows it reads as they were
/// stored: the rows then stay in registers. Two arguments are two memories. What nobody else reads
/// is no longer stored in scratch, and scratch without use is erased. Arguments that are only
/// written afterwards keep their declared access.
void fuseRows(kernel::FuncOp function);

} // namespace gemma::passes
