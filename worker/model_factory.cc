#include "worker/model_factory.h"

#include <utility>

#include "worker/model/network.h"

namespace paramd {

ModelFactory BuiltInModels() {
  return [](const v1::JobConfig& job, const InputSpec& input)
             -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    auto network = Network::Create(job.model(), input);
    if (!network.ok()) return network.status();
    return std::unique_ptr<TrainedModel>(*std::move(network));
  };
}

}  // namespace paramd
