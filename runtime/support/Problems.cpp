#include "runtime/support/Problems.h"

namespace gemma {

void Problems::add(std::string line) {
  ++total;
  if (lines.size() < limit)
    lines.push_back(std::move(line));
}

Error Problems::error() const {
  std::string message;
  for (const std::string &line : lines) {
    if (!message.empty())
      message += '\n';
    message += line;
  }
  if (total > lines.size())
    message += "\nand " + std::to_string(total - lines.size()) + " more";
  return badInput(std::move(message));
}

} // namespace gemma
