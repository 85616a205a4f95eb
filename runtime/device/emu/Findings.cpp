#include "runtime/device/emu/Findings.h"

#include "runtime/device/emu/EmuModule.h"

namespace gemma::emu {

const char *name(FindingKind kind) {
  switch (kind) {
  case FindingKind::SharedRace:
    return "race on shared memory";
  case FindingKind::GlobalRace:
    return "race on global memory";
  case FindingKind::UnwrittenShared:
    return "read of shared memory that was never written";
  case FindingKind::UnwrittenGlobal:
    return "read of global memory that was never written";
  case FindingKind::AsyncNotWaited:
    return "access to an asynchronous copy that was not waited for";
  case FindingKind::OutOfBounds:
    return "out of bounds";
  case FindingKind::ReadOnlyWrite:
    return "store to read-only memory";
  case FindingKind::Misaligned:
    return "misaligned access";
  case FindingKind::DivergentBarrier:
    return "divergent barrier";
  case FindingKind::DivergentWarp:
    return "divergent warp instruction";
  case FindingKind::NoProgress:
    return "no progress";
  case FindingKind::Trap:
    return "trap";
  }
  return "?";
}

std::string Finding::message() const {
  std::string result = std::string(name(kind)) + ": kernel " + kernel;
  if (!node.empty())
    result += ", node " + node;
  if (line)
    result += ", PTX line " + std::to_string(line) + " `" + text + "`";
  if (otherLine)
    result += " against line " + std::to_string(otherLine) + " `" + otherText + "`";
  if (!detail.empty())
    result += ": " + detail;
  if (count > 1)
    result += " (" + std::to_string(count) + " times)";
  return result;
}

void Findings::add(FindingKind kind, uint32_t site, uint32_t otherSite, const std::string &detail) {
  std::lock_guard lock(mutex);
  auto [entry, fresh] = found.try_emplace({kind, site, otherSite});
  if (!fresh) {
    ++entry->second.count;
    return;
  }
  Finding &finding = entry->second;
  finding.kind = kind;
  finding.kernel = kernel;
  finding.node = node;
  finding.detail = detail;
  if (site != noSite) {
    finding.line = module.lineOf(site);
    finding.text = std::string(module.textOf(finding.line));
    unsigned source = module.sourceOf(site);
    if (source != 0 && source <= nodes.size())
      finding.node = nodes[source - 1];
  }
  if (otherSite != noSite) {
    finding.otherLine = module.lineOf(otherSite);
    finding.otherText = std::string(module.textOf(finding.otherLine));
  }
}

std::vector<Finding> Findings::take() {
  std::lock_guard lock(mutex);
  std::vector<Finding> result;
  result.reserve(found.size());
  for (auto &[key, finding] : found)
    result.push_back(std::move(finding));
  found.clear();
  return result;
}

} // namespace gemma::emu
