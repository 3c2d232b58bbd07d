#include "config/optimizer_slots.h"

namespace paramd {
namespace {

constexpr absl::string_view kMomentum[] = {"momentum"};
constexpr absl::string_view kAdagrad[] = {"accumulator"};
constexpr absl::string_view kAdam[] = {"momentum", "variance"};

}  // namespace

absl::Span<const absl::string_view> SlotsOf(
    const v1::OptimizerConfig& config) {
  if (config.has_adam()) return kAdam;
  if (config.has_adagrad()) return kAdagrad;
  if (config.sgd().momentum() > 0) return kMomentum;
  return {};
}

}  // namespace paramd
