#include "compute/model/transformed_layer.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "compute/device/cpu_device.h"
#include "compute/model/image_layers.h"
#include "compute/model/simple_layers.h"
#include "compute/model/testing/layer_run.h"

namespace paramd {
namespace {

// Every third weight is left out.
class Mask : public LayerTransform {
 public:
  static bool LeavesOut(size_t i) { return i % 3 == 0; }

  ConstTensor Kernel(const Use&, const ConstTensor& kernel,
                     const Tensor& memory) const override {
    const auto values = kernel.values<float>();
    std::copy(values.begin(), values.end(), memory.values<float>().begin());
    Apply(memory);
    return memory;
  }
  void KernelGradient(const Use&, const ConstTensor& /*kernel*/,
                      const Tensor& gradient) const override {
    Apply(gradient);
  }

 private:
  static void Apply(const Tensor& tensor) {
    const auto values = tensor.values<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (LeavesOut(i)) values[i] = 0;
    }
  }
};

// Notes the least and the largest number that a layer gets.
class Tap : public LayerTransform {
 public:
  ConstTensor Input(const Use&, const ConstTensor& input,
                    const Tensor& /*memory*/) const override {
    for (const float value : input.values<float>()) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
    return input;
  }

  mutable float least = INFINITY;
  mutable float most = -INFINITY;
};

std::vector<std::shared_ptr<const Layer>> PlainLayers() {
  return {std::make_shared<Dense>("dense", Dims{12}, 7),
          std::make_shared<Conv2d>(
              "conv", Dims{5, 5, 4},
              Conv2d::Options{.filters = 3,
                              .sliding = {.kernel = 3, .same = true}})};
}

LayerResult RunInFloat(const Layer& layer, const LayerValues& values) {
  CpuDevice device;
  return RunLayer(layer, &device, DType::kFloat32, values);
}

void ExpectSame(const LayerResult& a, const LayerResult& b) {
  EXPECT_EQ(a.output, b.output);
  EXPECT_EQ(a.input_gradient, b.input_gradient);
  EXPECT_EQ(a.gradients, b.gradients);
}

TEST(TransformedLayerTest, AMaskHoldsForWeightsAndGradients) {
  for (const auto& plain : PlainLayers()) {
    const TransformedLayer layer(plain, std::make_shared<Mask>());
    LayerValues values = RandomValues(layer, 4, 0, 1);
    const LayerResult found = RunInFloat(layer, values);
    for (size_t i = 0; i < values.weights[0].size(); ++i) {
      if (Mask::LeavesOut(i)) values.weights[0][i] = 0;
    }
    LayerResult wanted = RunInFloat(*plain, values);
    for (size_t i = 0; i < wanted.gradients[0].size(); ++i) {
      if (Mask::LeavesOut(i)) wanted.gradients[0][i] = 0;
    }
    ExpectSame(found, wanted);
  }
}

TEST(TransformedLayerTest, ATapSeesWhatALayerGetsAndChangesNothing) {
  for (const auto& plain : PlainLayers()) {
    const auto tap = std::make_shared<Tap>();
    const TransformedLayer layer(plain, tap);
    const LayerValues values = RandomValues(layer, 4, 0, 2);
    ExpectSame(RunInFloat(layer, values), RunInFloat(*plain, values));
    const auto [least, most] =
        std::minmax_element(values.input.begin(), values.input.end());
    EXPECT_EQ(tap->least, static_cast<float>(*least));
    EXPECT_EQ(tap->most, static_cast<float>(*most));
  }
}

}  // namespace
}  // namespace paramd
