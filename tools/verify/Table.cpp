#include "tools/verify/Table.h"

#include <algorithm>

namespace gemma::verify {

/// Characters, not bytes, of UTF-8.
static size_t width(const std::string &text) {
  return size_t(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string formatTable(const std::vector<TableRow> &rows) {
  std::vector<size_t> widths;
  for (const TableRow &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size())
        widths.push_back(0);
      widths[i] = std::max(widths[i], width(row[i]));
    }
  std::string text;
  for (const TableRow &row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size())
        text.append(widths[i] - width(row[i]) + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

} // namespace gemma::verify
