// checkNodeCase(): somebody else's outputs against a case.
#include "tools/verify/NodeCase.h"

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/checkpoint/Widen.h"
#include "runtime/support/Json.h"
#include "tools/verify/Bounds.h"
#include "tools/verify/SpecKey.h"
#include "tools/verify/Verification.h"

#include <charconv>
#include <sstream>

namespace gemma::verify {

using reference::Tensor;

/// An output kept in 16 bits: its own rounding, and those of two intermediate results.
static double outputBound(ScalarType type, int64_t terms) {
  switch (type) {
  case ScalarType::BF16:
    return 3 * 0x1p-9;
  case ScalarType::F16:
    return 3 * 0x1p-12;
  default:
    return nodeBound(type, terms);
  }
}

static Error wrongFile(const SafetensorsFile &file, const std::string &what) {
  return badInput(file.path().string() + ": " + what);
}

/// A float tensor of the file.
static Expected<Tensor> floats(const SafetensorsFile &file, const std::string &name) {
  const SafetensorsEntry *entry = file.find(name);
  if (!entry)
    return wrongFile(file, "no tensor " + quoteForMessage(name));
  using enum ScalarType;
  if (!entry->type ||
      (*entry->type != F64 && *entry->type != F32 && *entry->type != BF16 && *entry->type != F16))
    return wrongFile(file, "tensor " + quoteForMessage(name) +
                               ": expected F64, F32, BF16 or F16, got " + entry->dtype);
  return Tensor(entry->shape, widenAll(*entry->type, file.data(*entry)));
}

/// What the case's metadata says of `key`; empty if nothing.
static std::string metadataOf(const SafetensorsFile &file, const std::string &key) {
  auto found = file.metadata().find(key);
  return found == file.metadata().end() ? "" : found->second;
}

/// That the case is one of the node that is asked about.
static Status checkKey(const std::string &asked, const SafetensorsFile &file) {
  SpecKey want = splitSpecKey(asked), have = splitSpecKey(metadataOf(file, "spec_key"));
  if (have.nodes.empty())
    return wrongFile(file, "is no case of gemma-verify: its metadata has no spec_key");
  bool sameModel = want.nodes.empty() || want.model == have.model;
  Expected<NodePattern> pattern = parseNodePattern(want.nodes.empty() ? asked : want.nodes);
  if (!pattern)
    return pattern.status();
  if (sameModel && pattern->matches(have.nodes))
    return {};
  return wrongFile(file,
                   "is a case of " + metadataOf(file, "spec_key") + ", asked for is " + asked);
}

Expected<VerifyReport> checkNodeCase(const std::string &key, const std::filesystem::path &caseFile,
                                     const std::filesystem::path &gotFile,
                                     std::optional<ScalarType> dtype) {
  Expected<SafetensorsFile> expected = SafetensorsFile::open(caseFile);
  if (!expected)
    return expected.status();
  if (Status same = checkKey(key, *expected); !same)
    return same;
  Expected<SafetensorsFile> got = SafetensorsFile::open(gotFile);
  if (!got)
    return got.status();

  int64_t terms = 0;
  std::string text = metadataOf(*expected, "terms");
  std::from_chars(text.data(), text.data() + text.size(), terms);
  VerifyReport report;
  report.model = metadataOf(*expected, "spec_key") + ", " + metadataOf(*expected, "op_spec");
  report.program = gotFile.string();
  std::istringstream names(metadataOf(*expected, "outputs"));
  for (std::string name; names >> name;) {
    Expected<Tensor> reference = floats(*expected, name), output = floats(*got, name);
    if (!reference)
      return reference.status();
    if (!output)
      return output.status();
    if (output->shape != reference->shape)
      return wrongFile(*got, "tensor " + quoteForMessage(name) + ": expected shape " +
                                 shapeText(reference->shape) + ", got " + shapeText(output->shape));
    report.dtype = dtype ? *dtype : *got->find(name)->type;
    Distance distance;
    distance.add(*output, *reference);
    VerifyRow row;
    row.key = name;
    row.what = std::string(gemma::name(report.dtype));
    row.worst = distance.value();
    row.bound = outputBound(report.dtype, terms);
    row.tensors = 1;
    report.rows.push_back(row);
  }
  if (report.rows.empty())
    return wrongFile(*expected, "names no outputs");
  return report;
}

} // namespace gemma::verify
