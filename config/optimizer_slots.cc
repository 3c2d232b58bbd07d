#include "config/optimizer_slots.h"

namespace paramd {
namespace {

constexpr absl::string_view kMomentum[] = {"momentum"};
constexpr absl::string_view kAdagrad[] = {"accumulator"};
constexpr absl::string_view kAdam[] = {"momentum", "variance"};
constexpr absl::string_view kRmsprop[] = {"square"};
constexpr absl::string_view kRmspropMoving[] = {"square", "momentum"};
constexpr absl::string_view kRmspropCentered[] = {"square", "mean", "momentum"};
constexpr absl::string_view kFtrl[] = {"accumulator", "linear"};

}  // namespace

absl::Span<const absl::string_view> SlotsOf(
    const v1::OptimizerConfig& config) {
  if (config.has_adam() || config.has_adamw()) return kAdam;
  if (config.has_adagrad()) return kAdagrad;
  if (config.has_ftrl()) return kFtrl;
  if (config.has_rmsprop()) {
    const bool moves = config.rmsprop().momentum() > 0;
    if (!config.rmsprop().centered()) {
      if (moves) return kRmspropMoving;
      return kRmsprop;
    }
    return absl::MakeConstSpan(kRmspropCentered).first(moves ? 3 : 2);
  }
  if (config.sgd().momentum() > 0) return kMomentum;
  return {};
}

absl::Span<const absl::string_view> SlotsOf(const v1::OptimizerConfig& config,
                                            const v1::Variable& variable) {
  if (variable.untrained()) return {};
  return SlotsOf(config);
}

}  // namespace paramd
