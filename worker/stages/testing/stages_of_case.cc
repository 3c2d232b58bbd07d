#include "worker/stages/testing/stages_of_case.h"

#include <memory>
#include <vector>

#include "base/status_macros.h"
#include "compute/device/testing/test_device.h"
#include "compute/model/network_plan.h"
#include "compute/pipeline/pipeline_model.h"

namespace paramd {

MakeStages StagesOfCase(const CutCase& one,
                        const v1::PipelineConfig& pipeline) {
  return [one, pipeline](const InputSpec& input,
                         uint32_t device) -> absl::StatusOr<StagesOfDevice> {
    StagesOfDevice made;
    ASSIGN_OR_RETURN(made.network, PlanNetwork(ConfigOf(one), input));
    ASSIGN_OR_RETURN(const PipelinePlan plan,
                     PlanPipeline(pipeline, *made.network));
    const std::vector<size_t>& begins = plan.begins;
    for (size_t s = device; s < begins.size(); s += plan.devices) {
      made.stages[static_cast<uint32_t>(s)] = std::make_unique<PipelineStage>(
          made.network, begins[s],
          s + 1 < begins.size() ? begins[s + 1] : made.network->layers->size(),
          MakeTestDevice());
    }
    return made;
  };
}

}  // namespace paramd
