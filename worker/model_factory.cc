#include "worker/model_factory.h"

#include <utility>

#include "worker/model/network.h"

namespace paramd {

ModelFactory BuiltInModels() {
  return [](const v1::JobConfig& job, const InputSpec& input)
             -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    if (job.model().custom()) {
      return absl::InvalidArgumentError(
          "the job's model is custom: only the program that brings it can train "
          "it; run that in place of paramd, or give model.layers and model.loss");
    }
    auto network = Network::Create(job.model(), input);
    if (!network.ok()) return network.status();
    return std::unique_ptr<TrainedModel>(*std::move(network));
  };
}

}  // namespace paramd
