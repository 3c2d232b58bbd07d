#include "worker/model/testing/gradient_check.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/random.h"

namespace paramd {
namespace {

// A layer with everything it needs to run.
class Bench {
 public:
  Bench(const Layer& layer, size_t rows, size_t input_width, uint64_t seed)
      : layer_(layer), rows_(rows), width_(input_width), random_(seed) {
    input_ = Values(rows * input_width);
    output_.resize(rows * layer.output_width());
    factors_ = Values(output_.size());
    for (const v1::Variable& variable : layer.variables()) {
      size_t size = 1;
      for (const uint64_t dimension : variable.shape()) size *= dimension;
      weights_.push_back(Values(size));
    }
  }

  std::vector<float>& input() { return input_; }
  std::vector<std::vector<float>>& weights() { return weights_; }

  double Forward() {
    layer_.Forward(WeightViews(), Input(), Output());
    double sum = 0;
    for (size_t i = 0; i < output_.size(); ++i) {
      sum += double{output_[i]} * double{factors_[i]};
    }
    return sum;
  }

  // Gradients by each variable, and last the one by the input if asked for.
  std::vector<std::vector<float>> Backward(bool with_input) {
    Forward();
    std::vector<std::vector<float>> gradients;
    for (const auto& weights : weights_) gradients.push_back(NaNs(weights));
    std::vector<float> input_gradient = NaNs(input_);
    std::vector<absl::Span<float>> views;
    for (auto& gradient : gradients) views.push_back(absl::MakeSpan(gradient));
    Layer::BackwardPass pass;
    const std::vector<absl::Span<const float>> weights = Views();
    pass.weights = weights;
    pass.input = Input();
    pass.output = Output();
    pass.output_gradient = {factors_.data(), rows_, layer_.output_width()};
    pass.gradients = views;
    if (with_input)
      pass.input_gradient = {input_gradient.data(), rows_, width_};
    layer_.Backward(pass);
    if (with_input) gradients.push_back(input_gradient);
    return gradients;
  }

  void ExpectDifferencesMatch(const std::string& what,
                              const std::vector<float>& gradient,
                              std::vector<float>* values) {
    ASSERT_EQ(gradient.size(), values->size());
    constexpr float kStep = 1.0f / 64;
    for (size_t i = 0; i < gradient.size(); ++i) {
      const float value = (*values)[i];
      (*values)[i] = value + kStep;
      const double above = Forward();
      (*values)[i] = value - kStep;
      const double below = Forward();
      (*values)[i] = value;
      ASSERT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-3)
          << what << ", element " << i;
    }
  }

 private:
  std::vector<float> Values(size_t size) {
    std::vector<float> values(size);
    for (float& value : values) {
      value = 0.05f + 0.95f * random_.Uniform();
      if (random_.Chance(0.5)) value = -value;
    }
    return values;
  }

  static std::vector<float> NaNs(const std::vector<float>& like) {
    return std::vector<float>(like.size(),
                              std::numeric_limits<float>::quiet_NaN());
  }

  std::vector<absl::Span<const float>> Views() const {
    return {weights_.begin(), weights_.end()};
  }
  WeightSpans WeightViews() {
    views_ = Views();
    return views_;
  }
  ConstMatrix Input() const { return {input_.data(), rows_, width_}; }
  Matrix Output() { return {output_.data(), rows_, layer_.output_width()}; }

  const Layer& layer_;
  const size_t rows_;
  const size_t width_;
  RandomStream random_;
  std::vector<float> input_, output_, factors_;
  std::vector<std::vector<float>> weights_;
  std::vector<absl::Span<const float>> views_;
};

}  // namespace

void ExpectLayerGradientsMatchDifferences(const Layer& layer, size_t rows,
                                          size_t input_width, uint64_t seed) {
  Bench bench(layer, rows, input_width, seed);
  std::vector<std::vector<float>> gradients = bench.Backward(true);
  bench.ExpectDifferencesMatch("input", gradients.back(), &bench.input());
  gradients.pop_back();
  for (size_t i = 0; i < gradients.size(); ++i) {
    bench.ExpectDifferencesMatch(layer.variables()[i].name(), gradients[i],
                                 &bench.weights()[i]);
  }
  EXPECT_EQ(gradients, bench.Backward(false));
}

}  // namespace paramd
