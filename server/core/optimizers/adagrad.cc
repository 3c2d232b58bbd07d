#include <cmath>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "server/core/optimizers/loops.h"
#include "server/core/optimizers/rule.h"

namespace paramd {
namespace {

class AdagradRule : public Rule {
 public:
  AdagradRule(float initial, double epsilon)
      : initial_(initial), epsilon_(static_cast<float>(epsilon)) {}

  float initial_slot(size_t) const override { return initial_; }
  bool RestsOnZeros(bool) const override { return true; }
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    RunKernel<AdagradLoop>({static_cast<float>(step.rate), epsilon_}, gradient,
                           step, arrays);
  }

 private:
  const float initial_;
  const float epsilon_;
};

// With one sum for a row, as Naumov et al., 2019, train their tables:
// a' = a + mean(g * g)
// w' = w - (rate / (sqrt(a') + epsilon)) * g
class RowAdagradRule : public Rule {
 public:
  RowAdagradRule(std::unique_ptr<const Rule> sgd, float initial, double epsilon)
      : sgd_(std::move(sgd)), initial_(initial), epsilon_(epsilon) {}

  float initial_slot(size_t) const override { return initial_; }
  bool RestsOnZeros(bool) const override { return true; }
  // In the order of the elements, so however the gradient is cut.
  void Apply(const NumberReader& gradient, const Step& step,
             const Arrays& arrays) const override {
    double squares = 0;
    gradient.ForEachRunAhead(
        arrays.elements, [&](const std::byte* g, size_t offset, size_t count) {
          for (size_t i = 0; i < count; ++i) {
            const double element = GradientAt<true>(
                g, i, arrays.values[offset + i], step.adjustment);
            squares += element * element;
          }
        });
    const auto sum = static_cast<float>(
        *arrays.slots + squares / static_cast<double>(arrays.elements));
    *arrays.new_slots = sum;
    Step scaled = step;
    scaled.rate = step.rate / (std::sqrt(double{sum}) + epsilon_);
    sgd_->Apply(gradient, scaled, arrays);
  }

 private:
  const std::unique_ptr<const Rule> sgd_;
  const float initial_;
  const double epsilon_;
};

struct Settings {
  float initial;
  double epsilon;
};

absl::StatusOr<Settings> SettingsOf(
    const v1::OptimizerConfig::Adagrad& config) {
  RETURN_IF_ERROR(CheckNotNegative("adagrad.initial_accumulator",
                                   config.initial_accumulator()));
  RETURN_IF_ERROR(CheckPositive("adagrad.epsilon", config.epsilon()));
  return Settings{static_cast<float>(config.initial_accumulator()),
                  config.epsilon()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Rule>> MakeAdagrad(
    const v1::OptimizerConfig::Adagrad& config) {
  ASSIGN_OR_RETURN(const Settings settings, SettingsOf(config));
  return std::make_unique<AdagradRule>(settings.initial, settings.epsilon);
}

absl::StatusOr<std::unique_ptr<const Rule>> MakeRowAdagrad(
    const v1::OptimizerConfig::Adagrad& config) {
  ASSIGN_OR_RETURN(const Settings settings, SettingsOf(config));
  ASSIGN_OR_RETURN(auto sgd, MakeSgd());
  return std::make_unique<RowAdagradRule>(std::move(sgd), settings.initial,
                                          settings.epsilon);
}

}  // namespace paramd
