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

struct NamedDevice {
  Network::MakeDevice make;  // Null: the processor.
  std::string name = "cpu";
};

absl::StatusOr<NamedDevice> DeviceOf(const v1::JobConfig& job) {
  if (job.device().empty() || job.device() == "cpu") return NamedDevice();
  const CudaProbe probe = ProbeCuda();
  ASSIGN_OR_RETURN(
      const DeviceChoice choice,
      ChooseDevice(job.device(), probe, [](absl::string_view address) {
        return DeviceClaims::OfProcess().Claim(address);
      }));
  if (!choice.is_cuda) return NamedDevice();
  const std::string name = absl::StrCat("cuda:", choice.index);
  const auto make = [choice] { return MakeCudaDevice(choice.index); };
  const absl::Status status = make()->status();
  if (!status.ok() && job.device() == "auto") {
    Log(LogLevel::kWarning, "a GPU can't be used; computing on the processor",
        {{"device", name}, {"why", status.message()}});
    return NamedDevice();
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
  return NamedDevice{make, probe.gpus[choice.index].name};
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
    ASSIGN_OR_RETURN(NamedDevice device, DeviceOf(job));
    auto network = Network::Create(job.model(), input, std::move(device.make),
                                   std::move(device.name));
    if (!network.ok()) return network.status();
    return std::unique_ptr<TrainedModel>(*std::move(network));
  };
}

}  // namespace paramd
