#include "compute/compiled/emit_layers.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "compute/model/residual.h"
#include "compute/model/sequence.h"
#include "compute/model/simple_layers.h"

namespace paramd {
namespace {

// A layer that nobody has told how it is written.
class UnknownLayer : public Layer {
 public:
  using Layer::Layer;

  void Forward(const Pass&) const override {}
  void Backward(const BackwardPass&) const override {}
};

constexpr char kRefused[] =
    "the layer 'unknown_1' is computed on the processor and on GPUs, and not "
    "by a PJRT plugin: choose another device";

TEST(EmitLayersTest, ALayerThatHasNoFormIsNamed) {
  const absl::StatusOr<HloValue> emitted =
      EmitLayer(UnknownLayer("unknown_1", {2}, {2}), {});
  EXPECT_EQ(emitted.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(emitted.status().message(), kRefused);
}

TEST(EmitLayersTest, ALayerThatHasNoFormIsNamedInsideOfOthers) {
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(std::make_unique<ElementwiseLayer>("relu_1", Dims{2},
                                                      Elementwise::kRelu));
  layers.push_back(
      std::make_unique<UnknownLayer>("unknown_1", Dims{2}, Dims{2}));
  const Residual residual(
      "residual_1", std::make_unique<Sequence>("layers", std::move(layers)),
      /*shortcut=*/nullptr, /*drop_rate=*/0);
  HloGraph graph;
  Emission emission;
  emission.graph = &graph;
  ProgramPass pass;
  pass.emission = &emission;
  pass.input = graph.Parameter({HloElement::kF32, {3, 2}});
  EXPECT_EQ(EmitLayer(residual, pass).status().message(), kRefused);
}

}  // namespace
}  // namespace paramd
