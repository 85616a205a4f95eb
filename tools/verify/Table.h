// Text in columns.
#pragma once

#include <string>
#include <vector>

namespace gemma::verify {

using TableRow = std::vector<std::string>;

/// Columns padded to their widest cell, the last one not; a line a row.
std::string formatTable(const std::vector<TableRow> &rows);

} // namespace gemma::verify
