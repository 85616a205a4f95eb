// What a measurement must not exceed or stay below: bench/budgets.json, part of the program.
#pragma once

#include "runtime/support/Status.h"
#include "tools/measure/Measure.h"

#include <string>
#include <vector>

namespace gemma::bench {

using namespace measure;

class BudgetCheck {
public:
  /// `section`: the mode, a key of bench/budgets.json.
  static Expected<BudgetCheck> open(const std::string &section);

  bool has(const std::string &key) const { return budgets.contains(key); }
  /// Compares with budgets[key], {"max": X} or {"min": X}; without such a key it does nothing.
  void check(const std::string &what, const std::string &key, double value);

  /// Prints a line a comparison and adds "budget" to `report`; an error if one failed or if there
  /// was none.
  Status finish(Json &report) const;

private:
  struct Line {
    std::string what, key;
    double value, limit;
    bool upper, ok;
  };
  Json budgets;
  std::vector<Line> lines;
};

} // namespace gemma::bench
