#include "tools/verify/VerifyReport.h"

#include "tools/verify/Table.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gemma::verify {

bool VerifyReport::holds() const {
  return !rows.empty() && std::ranges::all_of(rows, &VerifyRow::holds);
}

static std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

static std::string verdict(const VerifyRow &row) {
  return row.holds() ? "ok" : row.tensors ? "FAILS" : "NOT RUN";
}

std::string printReport(const VerifyReport &report) {
  std::vector<TableRow> table = {
      {"Spec key", "", "max|d|/max|ref|", "Bound", "Verdict", "Worst at"}};
  for (const VerifyRow &row : report.rows)
    table.push_back({row.key, row.what, number(row.worst), number(row.bound), verdict(row),
                     row.worst > 0 ? row.where : ""});
  std::string text = report.model + "\n" + report.program + "\n";
  for (const std::string &note : report.notes)
    text += note + "\n";
  auto failed =
      std::ranges::count_if(report.rows, [](const VerifyRow &row) { return !row.holds(); });
  return text + "\n" + formatTable(table) + "\n" +
         (report.holds() ? "all " + std::to_string(report.rows.size()) + " hold"
                         : std::to_string(failed) + " of " + std::to_string(report.rows.size()) +
                               " do not hold") +
         "\n";
}

nlohmann::json reportToJson(const VerifyReport &report) {
  nlohmann::json rows = nlohmann::json::array();
  for (const VerifyRow &row : report.rows) {
    // JSON has no infinity.
    nlohmann::json worst = std::isfinite(row.worst) ? nlohmann::json(row.worst) : nullptr;
    rows.push_back({{"key", row.key},
                    {"what", row.what},
                    {"error", worst},
                    {"bound", row.bound},
                    {"tensors", row.tensors},
                    {"worst_at", row.where},
                    {"holds", row.holds()}});
  }
  return {{"model", report.model},
          {"program", report.program},
          {"dtype", std::string(name(report.dtype))},
          {"notes", report.notes},
          {"rows", rows},
          {"holds", report.holds()}};
}

} // namespace gemma::verify
