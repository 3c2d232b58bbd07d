#include "worker/model_factory.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "worker/device/cuda_device.h"
#include "worker/device/device_claims.h"
#include "worker/model/network.h"

namespace paramd {
namespace {

// Null: the processor.
absl::StatusOr<Network::MakeDevice> DeviceOf(const v1::JobConfig& job) {
  if (job.device().empty() || job.device() == "cpu") return nullptr;
  const CudaProbe probe = ProbeCuda();
  ASSIGN_OR_RETURN(
      const DeviceChoice choice,
      ChooseDevice(job.device(), probe, [](absl::string_view address) {
        return DeviceClaims::OfProcess().Claim(address);
      }));
  if (!choice.is_cuda) return nullptr;
  const std::string name = absl::StrCat("cuda:", choice.index);
  const auto make = [choice] { return MakeCudaDevice(choice.index); };
  const absl::Status status = make()->status();
  if (!status.ok() && job.device() == "auto") {
    Log(LogLevel::kWarning, "a GPU can't be used; computing on the processor",
        {{"device", name}, {"why", status.message()}});
    return nullptr;
  }
  RETURN_IF_ERROR(status);
  Log(LogLevel::kInfo, "computing on a GPU",
      {{"device", name}, {"gpu", probe.gpus[choice.index].name}});
  if (choice.is_shared) {
    Log(LogLevel::kWarning,
        "another process computes on this GPU too: they share its time and its "
        "memory",
        {{"device", name}});
  }
  return make;
}

}  // namespace

ModelFactory BuiltInModels() {
  return [](const v1::JobConfig& job, const InputSpec& input)
             -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    if (job.model().custom()) {
      return absl::InvalidArgumentError(
          "the job's model is custom: only the program that brings it can train "
          "it; run that in place of paramd, or give model.layers and model.loss");
    }
    ASSIGN_OR_RETURN(Network::MakeDevice make_device, DeviceOf(job));
    auto network =
        Network::Create(job.model(), input, std::move(make_device));
    if (!network.ok()) return network.status();
    return std::unique_ptr<TrainedModel>(*std::move(network));
  };
}

}  // namespace paramd
