#include "compute/model/testing/layer_run.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "base/random.h"
#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"
#include "compute/device/rounding.h"
#include "compute/device/testing/test_device.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

uint64_t VariableSize(const v1::Variable& variable) {
  uint64_t size = 1;
  for (const uint64_t dimension : variable.shape()) size *= dimension;
  return size;
}

Dims ShapeOf(const v1::Variable& variable) {
  return Dims(variable.shape().begin(), variable.shape().end());
}

std::vector<double> Random(uint64_t size, RandomStream* random) {
  std::vector<double> values(size);
  for (double& value : values) {
    value = 0.05 + 0.95 * double{random->Uniform()};
    if (random->Chance(0.5)) value = -value;
  }
  return values;
}

// Memory of a device.
Device::Memory Allocated(Device* device, uint64_t bytes, const void* values) {
  Device::Memory memory = device->Allocate(bytes);
  device->Copy(values, bytes, memory.get());
  return memory;
}

// Memory of a device, all of it NaN.
Device::Memory Undefined(Device* device, uint64_t bytes) {
  return Allocated(device, bytes, std::string(bytes, '\xff').data());
}

NumberFormat FormatOf(DType half) {
  return half == DType::kBFloat16 ? NumberFormat::kBf16 : NumberFormat::kFp16;
}

// Device memory of these values, or NaN.
class Held {
 public:
  Held(Device* device, uint64_t size, DType dtype)
      : device_(*device),
        size_(size),
        dtype_(dtype),
        memory_(Undefined(device, size * SizeOf(dtype))) {}
  Held(Device* device, const std::vector<double>& values, DType dtype)
      : device_(*device), size_(values.size()), dtype_(dtype) {
    if (IsHalf(dtype)) {
      const std::vector<float> floats(values.begin(), values.end());
      std::vector<std::byte> halves(2 * size_);
      EncodeNumbers(FormatOf(dtype), floats.data(), size_, halves.data());
      memory_ = Allocated(device, halves.size(), halves.data());
      return;
    }
    WithFloatType(dtype, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> typed;
      for (const double value : values) typed.push_back(static_cast<T>(value));
      memory_ = Allocated(device, size_ * sizeof(T), typed.data());
    });
  }

  Tensor tensor(Dims dims) { return {memory_.get(), dtype_, std::move(dims)}; }
  std::vector<double> values() {
    std::vector<double> values;
    if (IsHalf(dtype_)) {
      std::vector<std::byte> halves(2 * size_);
      device_.Copy(memory_.get(), halves.size(), halves.data());
      device_.Finish();
      std::vector<float> floats(size_);
      DecodeNumbers(FormatOf(dtype_), halves.data(), size_, floats.data());
      return {floats.begin(), floats.end()};
    }
    WithFloatType(dtype_, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> typed(size_);
      device_.Copy(memory_.get(), size_ * sizeof(T), typed.data());
      device_.Finish();
      values.assign(typed.begin(), typed.end());
    });
    return values;
  }

 private:
  Device& device_;
  const uint64_t size_;
  const DType dtype_;
  Device::Memory memory_;
};

double SumOf(const LayerResult& result, const LayerValues& values) {
  double sum = 0;
  for (size_t i = 0; i < result.output.size(); ++i) {
    sum += result.output[i] * values.output_gradient[i];
  }
  return sum;
}

void ExpectDifferencesMatch(const Layer& layer, const std::string& what,
                            const std::vector<double>& gradient,
                            LayerValues* values, std::vector<double>* moved) {
  ReferenceDevice reference;
  constexpr double kStep = 1e-5;
  for (size_t i = 0; i < moved->size(); ++i) {
    double& value = (*moved)[i];
    const double before = value;
    const auto at = [&](double there) {
      value = there;
      return SumOf(RunLayer(layer, &reference, DType::kFloat64, *values, false),
                   *values);
    };
    const double difference =
        (at(before + kStep) - at(before - kStep)) / (2 * kStep);
    value = before;
    ASSERT_NEAR(gradient[i], difference, 1e-6 * (1 + std::abs(difference)))
        << layer.name() << ", by " << what << ", element " << i;
  }
}

void ExpectNear(const std::vector<double>& found,
                const std::vector<double>& wanted, double tolerance,
                const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size());
  double largest = 1;
  for (const double value : wanted) {
    largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(found[i], wanted[i], tolerance * largest)
        << what << ", element " << i;
  }
}

void ExpectNear(const Layer& layer, const LayerResult& found,
                const LayerResult& wanted, double tolerance) {
  ExpectNear(found.output, wanted.output, tolerance, layer.name());
  ExpectNear(found.input_gradient, wanted.input_gradient, tolerance,
             layer.name() + ", by the input");
  for (size_t v = 0; v < wanted.gradients.size(); ++v) {
    ExpectNear(found.gradients[v], wanted.gradients[v], tolerance,
               layer.variables()[v].name());
  }
}

void RoundTo(ComputeFormat format, std::vector<double>* values) {
  std::vector<float> floats(values->begin(), values->end());
  Round(format, floats.data(), floats.size(), floats.data());
  values->assign(floats.begin(), floats.end());
}

// Where the device keeps what layers hand on in two bytes.
void ExpectHalvesAreNear(const Layer& layer, LayerValues values,
                         ComputeFormat format, double tolerance,
                         bool wants_input) {
  const std::unique_ptr<Device> device = MakeTestDevice();
  device->SetComputeFormat(format);
  if (!IsHalf(device->activations())) return;
  RoundTo(format, &values.input);
  RoundTo(format, &values.output_gradient);
  ReferenceDevice reference;
  const LayerResult wanted =
      RunLayer(layer, &reference, DType::kFloat64, values, wants_input);
  const LayerResult found =
      RunLayer(layer, device.get(), device->activations(), values, wants_input);
  ExpectNear(layer, found, wanted, tolerance);
}

}  // namespace

LayerValues RandomValues(const Layer& layer, uint64_t examples, uint64_t bound,
                         uint64_t seed) {
  RandomStream random(seed);
  LayerValues values;
  values.examples = examples;
  values.input = Random(examples * layer.input_size(), &random);
  for (size_t i = 0; bound > 0 && i < values.input.size(); ++i) {
    values.indices.push_back(static_cast<int32_t>(random.Below(bound)));
  }
  for (const v1::Variable& variable : layer.variables()) {
    values.weights.push_back(Random(VariableSize(variable), &random));
    if (!variable.untrained()) continue;
    for (double& value : values.weights.back()) value = std::abs(value);
  }
  values.output_gradient = Random(examples * layer.output_size(), &random);
  return values;
}

namespace {

// Runs the backward pass in two halves, with whatever in scratch memory in
// between.
void ExpectHalvesHaveTheBits(const Layer& layer, Layer::BackwardPass pass,
                             const LayerResult& whole) {
  const Layer::Context& context = *pass.context;
  Device* const device = context.device;
  const DType dtype = context.dtype;
  const bool wanted = pass.input_gradient.data != nullptr;
  const uint64_t bytes = layer.DeferredBytes(context.examples, dtype, wanted);
  const auto deferred = Undefined(device, bytes);
  pass.deferred = static_cast<std::byte*>(deferred.get());
  Held input_gradient(device, pass.input_gradient.size(), dtype);
  if (wanted) pass.input_gradient.data = input_gradient.tensor({}).data;
  std::vector<Held> gradients;
  std::vector<Tensor> views(pass.gradients.begin(), pass.gradients.end());
  for (Tensor& view : views) {
    gradients.emplace_back(device, view.size(), view.dtype);
    view.data = gradients.back().tensor({}).data;
  }
  pass.gradients = views;
  layer.BackwardInput(pass);
  for (Held& gradient : gradients) {
    for (const double value : gradient.values()) {
      ASSERT_TRUE(std::isnan(value)) << layer.name() << " is early";
    }
  }
  if (wanted) {
    EXPECT_EQ(input_gradient.values(), whole.input_gradient) << layer.name();
  }
  const std::string undefined(layer.ScratchBytes(context.examples, dtype),
                              '\xff');
  device->Copy(undefined.data(), undefined.size(), pass.scratch);
  layer.BackwardVariables(pass);
  for (size_t v = 0; v < gradients.size(); ++v) {
    EXPECT_EQ(gradients[v].values(), whole.gradients[v])
        << layer.variables()[v].name();
  }
  if (wanted) {
    EXPECT_EQ(input_gradient.values(), whole.input_gradient) << layer.name();
  }
}

}  // namespace

LayerResult RunLayer(const Layer& layer, Device* device, DType dtype,
                     const LayerValues& values, bool wants_input) {
  const Layer::Context context = {.device = device,
                                  .examples = values.examples,
                                  .dtype = dtype,
                                  .training = values.training,
                                  .draws = true,
                                  .share = values.share};
  Held input(device, values.input, dtype);
  Held output(device, values.output_gradient.size(), dtype);
  Held output_gradient(device, values.output_gradient, dtype);
  Held input_gradient(device, values.input.size(), dtype);
  std::vector<Held> weights;
  std::vector<Held> gradients;
  std::vector<ConstTensor> weight_views;
  std::vector<Tensor> gradient_views;
  for (const std::vector<double>& one : values.weights) {
    weights.emplace_back(device, one, WideOf(dtype));
    gradients.emplace_back(device, one.size(), WideOf(dtype));
  }
  for (size_t v = 0; v < weights.size(); ++v) {
    const Dims shape = ShapeOf(layer.variables()[v]);
    weight_views.push_back(weights[v].tensor(shape));
    gradient_views.push_back(gradients[v].tensor(shape));
  }
  const auto kept = Undefined(device, layer.KeptBytes(values.examples, dtype));
  const auto scratch =
      Undefined(device, layer.ScratchBytes(values.examples, dtype));
  const auto indices = Allocated(
      device, values.indices.size() * sizeof(int32_t), values.indices.data());

  Layer::BackwardPass pass;
  pass.context = &context;
  pass.weights = weight_views;
  const Dims in = Batched(values.examples, layer.input_dims());
  const Dims out = Batched(values.examples, layer.output_dims());
  pass.input = input.tensor(in);
  if (!values.indices.empty()) {
    pass.input = ConstTensor(indices.get(), DType::kInt32, in);
  }
  pass.output = output.tensor(out);
  pass.kept = static_cast<std::byte*>(kept.get());
  pass.scratch = static_cast<std::byte*>(scratch.get());
  layer.Forward(pass);
  LayerResult result;
  result.output = output.values();
  if (!values.training) return result;
  pass.output_gradient = output_gradient.tensor(out);
  pass.gradients = gradient_views;
  pass.input_gradient = {nullptr, dtype, in};
  if (wants_input) pass.input_gradient = input_gradient.tensor(in);
  layer.Backward(pass);
  EXPECT_EQ(output.values(), result.output) << layer.name();
  Held undefined(device, values.output_gradient.size(), dtype);
  if (!layer.reads_output()) pass.output = undefined.tensor(out);
  layer.Backward(pass);  // It leaves what is kept.
  for (Held& gradient : gradients) {
    result.gradients.push_back(gradient.values());
  }
  if (wants_input) result.input_gradient = input_gradient.values();
  ExpectHalvesHaveTheBits(layer, pass, result);
  return result;
}

void ExpectLayerIsRight(const Layer& layer, uint64_t examples, uint64_t bound) {
  ReferenceDevice reference;
  LayerValues values = RandomValues(layer, examples, bound, 1);
  const bool wants_input = bound == 0;
  const LayerResult right =
      RunLayer(layer, &reference, DType::kFloat64, values, wants_input);
  if (wants_input) {
    ExpectDifferencesMatch(layer, "the input", right.input_gradient, &values,
                           &values.input);
  }
  for (size_t v = 0; v < values.weights.size(); ++v) {
    if (layer.variables()[v].untrained()) continue;
    ExpectDifferencesMatch(layer, layer.variables()[v].name(),
                           right.gradients[v], &values, &values.weights[v]);
  }
  EXPECT_EQ(
      RunLayer(layer, &reference, DType::kFloat64, values, false).gradients,
      right.gradients);
  const std::unique_ptr<Device> device = MakeTestDevice();
  const LayerResult fast =
      RunLayer(layer, device.get(), DType::kFloat32, values, wants_input);
  ExpectNear(layer, fast, right, 2e-5);
  ExpectHalvesAreNear(layer, values, ComputeFormat::kBf16, 3e-2, wants_input);
  ExpectHalvesAreNear(layer, values, ComputeFormat::kFp16, 4e-3, wants_input);
}

}  // namespace paramd
