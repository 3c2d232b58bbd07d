#include "worker/strategy/plan.h"

#include "worker/strategy/async_plan.h"
#include "worker/strategy/sync_plan.h"

namespace paramd {

std::unique_ptr<Plan> Plan::Create(const v1::Configuration& configuration,
                                   const Options& options, Steps* steps,
                                   InputLeases* input) {
  if (configuration.consistency().mode() == v1::Consistency::SYNC) {
    return std::make_unique<SyncPlan>(options, steps);
  }
  return std::make_unique<AsyncPlan>(options, steps, input);
}

}  // namespace paramd
