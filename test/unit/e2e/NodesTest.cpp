// Every node of an unfused program against the official implementation's inner values.
#include "CompiledModel.h"

#include "tools/gemma-run/NodeLog.h"

using namespace gemma;
using namespace gemma::test;

namespace {

class CompiledNodes : public testing::TestWithParam<const char *> {};

TEST_P(CompiledNodes, AccumulateLittleError) {
  ReferenceData data = ReferenceData::open(GetParam());
  Ids prompt = data.reference.ids("prompt." + data.reference.innerPrompt() + ".tokens");
  CompiledModel compiled =
      CompiledModel::make(data.checkpoint, {.dtype = ScalarType::F64, .fusion = false});

  run::NodeLog nodes(*compiled.context, int64_t(prompt.size()));
  auto sequence = compiled.sequence();
  nodes.beginStep(int64_t(prompt.size()));
  compiled.prefill(*sequence, prompt);
  TempFolder folder;
  EXPECT_OK(nodes.tensors().write(folder / "nodes.safetensors"));
  auto written = SafetensorsFile::open(folder / "nodes.safetensors");
  ASSERT_TRUE(written) << written.error().message;
  ReferenceFile got(std::move(*written));

  std::vector<std::string> names = data.reference.innerNames();
  for (const std::string &name : names) {
    std::optional<Tensor> ours = got.find(name);
    ASSERT_TRUE(ours) << name << " was not written";
    Tensor expected = data.reference.tensor(name);
    ours->shape = expected.shape; // heads may be joined
    EXPECT_LE(distance(*ours, expected), 1e-12) << name;
  }
  // Two layers with 19 or 18 tensors each, every layer's output, both ends.
  EXPECT_GE(names.size(), size_t(2 * 17 + data.checkpoint.config().layers() + 2));
}

INSTANTIATE_TEST_SUITE_P(Models, CompiledNodes,
                         testing::Values("narrow-12b", "narrow-31b", "text-only-f32",
                                         "narrow-12b-tail"),
                         [](const auto &info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
