#include "tools/gemma-bench/Budget.h"

#include <cstdio>

namespace gemma::bench {

extern const char *const budgetsText;

Expected<BudgetCheck> BudgetCheck::open(const std::string &section) {
  Json all = Json::parse(budgetsText, nullptr, /*allow_exceptions=*/false);
  if (!all.is_object() || !all.contains(section) || !all[section].is_object())
    return internalError("bench/budgets.json: expected an object with a section \"" + section +
                         "\"");
  BudgetCheck check;
  check.budgets = all[section];
  for (const auto &[key, budget] : check.budgets.items()) {
    bool one = budget.is_object() && budget.contains("max") != budget.contains("min");
    if (!one || !budget[budget.contains("max") ? "max" : "min"].is_number())
      return internalError("bench/budgets.json: " + section + "." + key +
                           ": expected {\"max\": number} or {\"min\": number}");
  }
  return check;
}

void BudgetCheck::check(const std::string &what, const std::string &key, double value) {
  if (!has(key))
    return;
  bool upper = budgets[key].contains("max");
  double limit = budgets[key][upper ? "max" : "min"].get<double>();
  lines.push_back({what, key, value, limit, upper, upper ? value <= limit : value >= limit});
}

Status BudgetCheck::finish(Json &report) const {
  Json list = Json::array();
  std::string failed;
  for (const Line &line : lines) {
    const char *bound = line.upper ? "max" : "min";
    std::printf("budget: %s: %s %.10g, %s %.10g: %s\n", line.what.c_str(), line.key.c_str(),
                line.value, bound, line.limit, line.ok ? "ok" : "EXCEEDED");
    list.push_back({{"what", line.what},
                    {"key", line.key},
                    {"value", line.value},
                    {bound, line.limit},
                    {"ok", line.ok}});
    if (!line.ok) {
      char text[128];
      std::snprintf(text, sizeof text, " %s: expected at %s %.10g, got %.10g", line.key.c_str(),
                    line.upper ? "most" : "least", line.limit, line.value);
      failed += (failed.empty() ? "" : "; ") + line.what + text;
    }
  }
  report["budget"] = std::move(list);
  if (lines.empty())
    return internalError("bench/budgets.json: no budget of this mode was compared");
  return failed.empty() ? Status() : Status(badInput("budget exceeded: " + failed));
}

} // namespace gemma::bench
