#include "compute/quantized/integer_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/check.h"
#include "compute/quantized/integer_kernels.h"

namespace paramd {
namespace {

IntegerKernels& KernelsOf(const Layer::Pass& pass) {
  auto* const device = dynamic_cast<IntegerDevice*>(pass.context->device);
  CHECK(device != nullptr, "layers of integers run on a device for them");
  return device->kernels();
}

constexpr char kNotTrained[] =
    "a quantised network is evaluated and predicts, and is not trained";

void MakeIntegers(const Affine& affine, absl::Span<const float> values,
                  uint8_t* out) {
  QuantizeValues(affine, values, out);
}
void MakeIntegers(const Affine& affine, absl::Span<const float> values,
                  int16_t* out) {
  QuantizeValues(affine.scale, values, out);
}

// An integer stands for no number that is not finite.
bool AreFinite(absl::Span<const float> values) {
  constexpr uint32_t kExponent = 0x7f800000;
  bool finite = true;
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    finite &= (bits & kExponent) != kExponent;
  }
  return finite;
}

// What comes of a row whose input is not finite, as in float32.
void SetUnknown(absl::Span<float> row) {
  std::fill(row.begin(), row.end(), std::numeric_limits<float>::quiet_NaN());
}

std::vector<float> OfEach(std::vector<float> scales, uint64_t outputs) {
  if (scales.size() == 1) scales.resize(outputs, scales[0]);
  return scales;
}

}  // namespace

IntegerRun::IntegerRun(std::string name, const Dims& input, const Dims& output,
                       int bits, Affine input_affine, std::vector<Step> steps,
                       uint64_t flops)
    : Layer(std::move(name), input, output),
      bits_(bits),
      affine_(input_affine),
      steps_(std::move(steps)),
      flops_(flops) {}

uint64_t IntegerRun::BufferBytes(uint64_t examples) const {
  uint64_t values = input_size();
  for (size_t i = 0; i + 1 < steps_.size(); ++i) {
    values = std::max(values, steps_[i].outputs);
  }
  return Aligned(examples * values * (bits_ / 8));
}

uint64_t IntegerRun::ScratchBytes(uint64_t examples, DType) const {
  return 2 * BufferBytes(examples);
}

template <class T>
void IntegerRun::Run(const Pass& pass) const {
  IntegerKernels& kernels = KernelsOf(pass);
  const uint64_t examples = pass.context->examples;
  auto* now = reinterpret_cast<T*>(pass.scratch);
  auto* next = now + BufferBytes(examples) / sizeof(T);
  MakeIntegers(affine_, pass.input.values<float>(), now);
  for (const Step& step : steps_) {
    if (step.pool.has_value()) {
      Window window = *step.pool;
      window.batch = examples;
      MaxPoolIntegers(window, now, next);
    } else {
      const bool is_last = &step == &steps_.back();
      kernels.Multiply(step.product, examples * step.rows, now,
                       is_last ? pass.output.data : next);
    }
    std::swap(now, next);
  }
}

void IntegerRun::Forward(const Pass& pass) const {
  if (bits_ == 8) {
    Run<uint8_t>(pass);
  } else {
    Run<int16_t>(pass);
  }
  const uint64_t examples = pass.context->examples;
  const absl::Span<float> outputs = pass.output.values<float>();
  for (uint64_t e = 0; e < examples; ++e) {
    if (AreFinite(pass.input.values<float>().subspan(e * input_size(),
                                                     input_size()))) {
      continue;
    }
    SetUnknown(outputs.subspan(e * output_size(), output_size()));
  }
}

void IntegerRun::Backward(const BackwardPass&) const {
  CHECK(false, kNotTrained);
}

DynamicDense::DynamicDense(std::string name, const Dims& input,
                           const Dims& output, IntegerProduct product,
                           std::vector<float> weight_scales,
                           std::vector<float> bias, uint64_t flops)
    : Layer(std::move(name), input, output),
      product_(std::move(product)),
      weight_scales_(OfEach(std::move(weight_scales), product_.outputs)),
      bias_(std::move(bias)),
      weight_sums_(WeightSums(product_)),
      flops_(flops) {}

uint64_t DynamicDense::ScratchBytes(uint64_t examples, DType) const {
  return Aligned(rows(examples) * product_.inputs) +
         Aligned(rows(examples) * product_.outputs * sizeof(int32_t)) +
         Aligned(rows(examples) * sizeof(Affine));
}

void DynamicDense::Forward(const Pass& pass) const {
  const uint64_t count = rows(pass.context->examples);
  const uint64_t in = product_.inputs;
  const uint64_t out = product_.outputs;
  Arena arena(pass.scratch);
  auto* const integers =
      reinterpret_cast<uint8_t*>(arena.TakeBytes(count * in));
  auto* const sums = reinterpret_cast<int32_t*>(
      arena.TakeBytes(count * out * sizeof(int32_t)));
  auto* const affines =
      reinterpret_cast<Affine*>(arena.TakeBytes(count * sizeof(Affine)));
  const absl::Span<const float> values = pass.input.values<float>();
  for (uint64_t row = 0; row < count; ++row) {
    const auto of_row = values.subspan(row * in, in);
    const auto [min, max] = std::minmax_element(of_row.begin(), of_row.end());
    affines[row] = AffineOf({*min, *max});
    QuantizeValues(affines[row], of_row, integers + row * in);
  }
  KernelsOf(pass).Multiply(product_, count, integers, sums);
  float* to = pass.output.values<float>().data();
  for (uint64_t row = 0; row < count; ++row) {
    const int32_t zero_point = affines[row].zero_point;
    for (uint64_t c = 0; c < out; ++c) {
      const int32_t sum = sums[row * out + c] - zero_point * weight_sums_[c];
      const float value =
          static_cast<float>(sum) * (affines[row].scale * weight_scales_[c]) +
          bias_[c];
      *to++ = product_.relu && !(value > 0) ? 0.0f : value;
    }
    if (AreFinite(values.subspan(row * in, in))) continue;
    SetUnknown({to - out, out});
  }
}

void DynamicDense::Backward(const BackwardPass&) const {
  CHECK(false, kNotTrained);
}

}  // namespace paramd
