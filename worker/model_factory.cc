#include "worker/model_factory.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "base/log.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "compute/compiled/compiled_network.h"
#include "compute/device/cpu_device.h"
#include "compute/device/cuda_device.h"
#include "compute/device/device_claims.h"
#include "compute/model/network.h"
#include "compute/model/network_plan.h"
#include "compute/pipeline/activation_budget.h"
#include "compute/pipeline/pipeline_model.h"
#include "compute/pjrt/pjrt_client.h"
#include "config/strategy.h"
#include "worker/load_teachers.h"

namespace paramd {
namespace {

using Model = std::unique_ptr<TrainedModel>;

struct NamedDevice {
  Network::MakeDevice make;  // Null: the processor.
  std::string name = "cpu";
};

// Replicas for which a process clones its model; those that mirror each have
// one of their own.
uint32_t ClonedReplicas(const v1::JobConfig& job) {
  return job.strategy() == v1::JobConfig::CENTRAL_STORAGE || UsesServers(job)
             ? ReplicasOf(job)
             : 1;
}

// Devices of one replica: those of its stages.
uint32_t StageDevicesOf(const v1::JobConfig& job) {
  const v1::PipelineConfig& pipeline = job.pipeline();
  return std::max(1u, pipeline.stages()) /
         std::max(1u, pipeline.stages_per_device());
}

// Devices that a process needs of a plugin, from the setting's one on.
size_t PluginDevicesOf(const v1::JobConfig& job) {
  return job.strategy() == v1::JobConfig::MIRRORED ? ReplicasOf(job)
                                                   : ClonedReplicas(job);
}

// "2 devices: numbers 0 to 1".
std::string CountText(size_t count) {
  return count == 1 ? std::string("1 device: number 0")
                    : absl::StrCat(count, " devices: numbers 0 to ", count - 1);
}

ComputeFormat FormatOf(const v1::JobConfig& job) {
  switch (job.compute_format()) {
    case v1::JobConfig::COMPUTE_FORMAT_TF32:
      return ComputeFormat::kTf32;
    case v1::JobConfig::COMPUTE_FORMAT_BF16:
      return ComputeFormat::kBf16;
    case v1::JobConfig::COMPUTE_FORMAT_FP16:
      return ComputeFormat::kFp16;
    default:
      return ComputeFormat::kFp32;
  }
}

bool HasActivationBudget(const v1::JobConfig& job) {
  return job.memory().activation_budget_bytes() > 0;
}

// What a step writes to a disk, if it does.
void LogSwapped(const NetworkPlan& network) {
  if (network.swap_directory.empty()) return;
  uint64_t bytes = 0;
  for (const ChosenRecompute& stage : network.chosen) {
    bytes += stage.live * stage.swapped_bytes;
  }
  Log(LogLevel::kInfo, "activations are swapped to a disk",
      {{"directory", network.swap_directory}, {"bytes_at_once", bytes}});
}

// What computes in that format.
Network::MakeDevice InFormat(ComputeFormat format, Network::MakeDevice make) {
  return [format, make = std::move(make)] {
    std::unique_ptr<Device> device =
        make == nullptr ? std::make_unique<CpuDevice>() : make();
    device->SetComputeFormat(format);
    return device;
  };
}

absl::Status CantUse(const v1::JobConfig& job, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("device ", job.device(), " can't be used: ", why));
}

// Which rows a step reads is asked for one step at a time.
absl::Status CheckConcurrent(const v1::JobConfig& job,
                             const NetworkPlan& network) {
  if (ConcurrentSteps(job.pipeline()) == 1) return absl::OkStatus();
  for (const v1::Variable& variable : network.variables) {
    if (!variable.sparse()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline.schedule: without a flush weights are pulled whole, but ",
        variable.name(),
        " is sparse; choose 1f1b, or leave \"sparse\" out of its layer"));
  }
  return absl::OkStatus();
}

absl::Status CantRoundThere(const v1::JobConfig& job) {
  return CantUse(job,
                 "with model.quantization_aware numbers are rounded on the "
                 "processor alone; choose cpu");
}

absl::StatusOr<Model> OnPlugin(const v1::JobConfig& job, const InputSpec& input,
                               const DeviceChoice& choice) {
  if (job.model().has_quantization_aware()) return CantRoundThere(job);
  if (job.has_distill()) {
    return CantUse(job,
                   "a program that a plugin compiles learns of labels alone, "
                   "and can't have distill; every strategy also runs on cpu");
  }
  if (IsPipelined(job)) {
    return CantUse(job,
                   "a plugin compiles the model as a whole, and can't have "
                   "a pipeline; every strategy also runs on cpu");
  }
  if (HasActivationBudget(job)) {
    return CantUse(job,
                   "a plugin decides itself what it computes again, and can't "
                   "have memory.activation_budget_bytes; leave it out");
  }
  const auto index = static_cast<size_t>(choice.index);
  const size_t needed = PluginDevicesOf(job);
  const auto client = PjrtClient::OfProcess(choice.plugin, index + needed);
  constexpr absl::string_view kElsewhere = "; every strategy also runs on cpu";
  if (!client.ok()) {
    const absl::Status cant =
        CantUse(job, absl::StrCat(client.status().message(), kElsewhere));
    // What it waits for may come back.
    return absl::IsUnavailable(client.status())
               ? absl::UnavailableError(cant.message())
               : cant;
  }
  const size_t count = (*client)->device_count();
  const bool has_it = index < count;
  // Replicas that mirror each come here, with a device of their own.
  const bool has_all = ClonedReplicas(job) == 1 || index + needed <= count;
  if (!has_it || !has_all) {
    return CantUse(
        job, absl::StrCat("the plugin has ", CountText(count),
                          needed == 1
                              ? std::string(kElsewhere)
                              : absl::StrCat("; ", needed,
                                             " replicas need as many, so give "
                                             "fewer, or choose strategy "
                                             "\"one_device\"")));
  }
  const ComputeFormat format = FormatOf(job);
  if (format != ComputeFormat::kFp32 && format != ComputeFormat::kBf16) {
    return CantUse(job, absl::StrCat("a plugin computes in fp32 or bf16, and "
                                     "compute_format is ",
                                     NameOf(format)));
  }
  auto network =
      CompiledNetwork::Create(job.model(), input, *client, index, format);
  if (!network.ok()) return network.status();
  Log(LogLevel::kInfo, "computing on a device of a PJRT plugin",
      {{"device", job.device()}, {"name", (*client)->NameOf(index)}});
  return Model(*std::move(network));
}

absl::StatusOr<std::vector<DeviceChoice>> Choose(const v1::JobConfig& job,
                                                 uint32_t replicas,
                                                 const CudaProbe& probe) {
  return ChooseDevices(job.device(), replicas, probe,
                       [](absl::string_view address) {
                         return DeviceClaims::OfProcess().Claim(address);
                       });
}

// The device is the processor, or a GPU if there is one.
bool MayBeGpu(const v1::JobConfig& job) {
  return !job.device().empty() && job.device() != "cpu" &&
         !absl::StartsWith(job.device(), "pjrt:");
}

absl::StatusOr<NamedDevice> DeviceOf(const CudaProbe& probe,
                                     const DeviceChoice& choice,
                                     ComputeFormat format) {
  const std::string name = SettingOf(choice);
  const auto make = [choice] { return MakeCudaDevice(choice.index); };
  RETURN_IF_ERROR(CheckFormat(probe, choice.index, format));
  RETURN_IF_ERROR(make()->status());
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

// Of the setting "auto".
void LogUseless(const DeviceChoice& choice, const absl::Status& why) {
  Log(LogLevel::kWarning, "a GPU can't be used; computing on the processor",
      {{"device", SettingOf(choice)}, {"why", why.message()}});
}

// Of each replica; none: all compute on the processor.
absl::StatusOr<std::vector<NamedDevice>> DevicesOf(
    const v1::JobConfig& job, const CudaProbe& probe,
    const std::vector<DeviceChoice>& choices) {
  std::vector<NamedDevice> devices;
  for (const DeviceChoice& choice : choices) {
    if (!choice.is_cuda) return std::vector<NamedDevice>();
    auto device = DeviceOf(probe, choice, FormatOf(job));
    if (!device.ok() && job.device() == "auto") {
      LogUseless(choice, device.status());
      return std::vector<NamedDevice>();
    }
    if (!device.ok()) return device.status();
    devices.push_back(*std::move(device));
  }
  return devices;
}

// Gives the model its teachers, if the job has some.
template <class M>
absl::Status AddTeachers(const v1::JobConfig& job, const InputSpec& input,
                         const NetworkPlan& plan, const TeacherDevices& devices,
                         M* model) {
  if (!job.has_distill()) return absl::OkStatus();
  ASSIGN_OR_RETURN(auto teachers, LoadTeachers(job, input, plan, devices));
  model->LearnFrom(std::move(teachers));
  return absl::OkStatus();
}

// What a process computes on.
struct ChosenDevices {
  std::vector<Network::MakeDevice> makers;  // At least one.
  std::string name = "cpu";
  bool are_gpus = false;
  absl::optional<DeviceChoice> plugin;  // Then nothing of the above.
};

// `count`: so many GPUs, if it is GPUs.
absl::StatusOr<ChosenDevices> ChooseFor(const v1::JobConfig& job,
                                        uint32_t count) {
  ChosenDevices chosen;
  std::vector<NamedDevice> devices;
  if (!job.device().empty() && job.device() != "cpu") {
    const CudaProbe probe = ProbeCuda();
    // A replica that mirrors has a process's model of its own.
    const bool mirrors = job.strategy() == v1::JobConfig::MIRRORED;
    ASSIGN_OR_RETURN(auto choices,
                     Choose(job, mirrors ? ReplicasOf(job) : count, probe));
    if (mirrors) choices.resize(1);
    if (!choices.front().plugin.empty()) {
      chosen.plugin = choices.front();
      return chosen;
    }
    ASSIGN_OR_RETURN(devices, DevicesOf(job, probe, choices));
    if (!devices.empty() && job.model().has_quantization_aware()) {
      return CantRoundThere(job);
    }
  }
  chosen.are_gpus = !devices.empty();
  if (chosen.are_gpus) chosen.name = devices.front().name;
  for (NamedDevice& device : devices) {
    chosen.makers.push_back(InFormat(FormatOf(job), std::move(device.make)));
  }
  if (chosen.makers.empty()) {
    chosen.makers.push_back(InFormat(FormatOf(job), nullptr));
  }
  return chosen;
}

// A model's layers, and how they are cut: in one piece without a pipeline. The
// same in each process that has a part of it, but for what is swapped.
struct PlannedModel {
  std::shared_ptr<const NetworkPlan> network;
  PipelinePlan pipeline = InOnePiece();
};

absl::StatusOr<PlannedModel> PlanModel(const v1::JobConfig& job,
                                       const InputSpec& input,
                                       const ChosenDevices& chosen) {
  PlannedModel planned;
  ASSIGN_OR_RETURN(std::unique_ptr<NetworkPlan> made,
                   PlanNetwork(job.model(), input));
  if (IsPipelined(job)) {
    ASSIGN_OR_RETURN(planned.pipeline, PlanPipeline(job.pipeline(), *made));
    RETURN_IF_ERROR(CheckConcurrent(job, *made));
  }
  if (HasActivationBudget(job)) {
    if (chosen.are_gpus && !job.memory().swap_directory().empty()) {
      return CantUse(job,
                     "layers are swapped to a disk on the processor alone; "
                     "leave memory.swap_directory out, or choose cpu");
    }
    RETURN_IF_ERROR(FitActivations(job, chosen.makers.front()()->activations(),
                                   made.get(), &planned.pipeline));
    LogSwapped(*made);
  }
  planned.network = std::move(made);
  return planned;
}

absl::StatusOr<Model> MakeModel(const v1::JobConfig& job,
                                const InputSpec& input,
                                std::shared_ptr<StagesElsewhere> elsewhere) {
  const uint32_t stages_here =
      StageDevicesOf(job) - (elsewhere == nullptr ? 0 : elsewhere->devices());
  ASSIGN_OR_RETURN(ChosenDevices chosen,
                   ChooseFor(job, ClonedReplicas(job) * stages_here));
  if (chosen.plugin.has_value()) return OnPlugin(job, input, *chosen.plugin);
  ASSIGN_OR_RETURN(PlannedModel planned, PlanModel(job, input, chosen));
  const auto& plan = planned.network;
  const std::vector<Network::MakeDevice>& makers = chosen.makers;
  const TeacherDevices teachers = {makers.front(), chosen.name, makers};
  if (IsPipelined(job)) {
    auto model = std::make_unique<PipelineModel>(
        plan, std::move(planned.pipeline), makers, chosen.name,
        std::move(elsewhere));
    RETURN_IF_ERROR(AddTeachers(job, input, *plan, teachers, model.get()));
    return Model(std::move(model));
  }
  auto network =
      std::make_unique<Network>(plan, makers.front(), chosen.name, makers);
  RETURN_IF_ERROR(AddTeachers(job, input, *plan, teachers, network.get()));
  return Model(std::move(network));
}

}  // namespace

v1::JobConfig WithOneReplica(v1::JobConfig job) {
  const bool is_one = ReplicasOf(job) == 1;
  job.set_replicas(1);
  job.clear_distill();
  if (job.has_memory()) job.mutable_memory()->clear_swap_directory();
  // One pipeline takes as many GPUs as it has; of a list for several, any.
  if (StageDevicesOf(job) > 1) {
    if (!is_one && absl::StartsWith(job.device(), "cuda:")) {
      job.set_device("cuda");
    }
    return job;
  }
  const absl::string_view device = job.device();
  // A list of numbers, or of ranges of them.
  if (absl::StartsWith(device, "cuda:")) {
    job.set_device(std::string(device.substr(0, device.find_first_of("-,"))));
  }
  return job;
}

v1::JobConfig WithoutGpu(v1::JobConfig job) {
  if (!MayBeGpu(job)) return job;
  job.set_device("cpu");
  // The processor has activations of twice as many bytes.
  const ComputeFormat format = FormatOf(job);
  if (format == ComputeFormat::kBf16 || format == ComputeFormat::kFp16) {
    job.clear_memory();
  }
  return job;
}

absl::Status CheckGpus(const v1::JobConfig& job, uint32_t elsewhere) {
  if (!MayBeGpu(job)) return absl::OkStatus();
  const CudaProbe probe = ProbeCuda();
  ASSIGN_OR_RETURN(
      const auto choices,
      ChooseDevices(job.device(),
                    job.strategy() == v1::JobConfig::MIRRORED
                        ? ReplicasOf(job)
                        : ReplicasOf(job) * (StageDevicesOf(job) - elsewhere),
                    probe, [](absl::string_view) { return true; }));
  // What "auto" finds to be useless it does without.
  if (job.device() == "auto" || !choices.front().is_cuda) {
    return absl::OkStatus();
  }
  for (const DeviceChoice& choice : choices) {
    RETURN_IF_ERROR(CheckFormat(probe, choice.index, FormatOf(job)));
  }
  return MakeCudaDevice(choices.front().index)->status();
}

absl::StatusOr<std::vector<std::string>> DevicesOfReplicas(
    const v1::JobConfig& job) {
  const CudaProbe probe = ProbeCuda();
  ASSIGN_OR_RETURN(const auto choices, Choose(job, ReplicasOf(job), probe));
  std::vector<std::string> settings;
  for (const DeviceChoice& choice : choices) {
    if (job.device() == "auto" && choice.is_cuda) {
      absl::Status status = CheckFormat(probe, choice.index, FormatOf(job));
      if (status.ok()) status = MakeCudaDevice(choice.index)->status();
      if (!status.ok()) {
        LogUseless(choice, status);
        return std::vector<std::string>(choices.size(), "cpu");
      }
    }
    settings.push_back(SettingOf(choice));
  }
  return settings;
}

ModelFactory BuiltInModels() {
  return [](const v1::JobConfig& job,
            const InputSpec& input) -> absl::StatusOr<Model> {
    if (job.model().custom()) {
      return absl::InvalidArgumentError(
          "the job's model is custom: only the program that brings it can "
          "train it; run that in place of paramd, or give model.layers and "
          "model.loss");
    }
    return MakeModel(job, input, /*elsewhere=*/nullptr);
  };
}

absl::StatusOr<std::unique_ptr<TrainedModel>> MakeModelWithStages(
    const v1::JobConfig& job, const InputSpec& input,
    std::shared_ptr<StagesElsewhere> elsewhere) {
  return MakeModel(job, input, std::move(elsewhere));
}

namespace {

absl::StatusOr<ChosenDevices> ChooseForStages(const v1::JobConfig& job) {
  ASSIGN_OR_RETURN(ChosenDevices chosen, ChooseFor(job, /*count=*/1));
  if (!chosen.plugin.has_value()) return chosen;
  return CantUse(job,
                 "a plugin compiles the model as a whole, and can't have a "
                 "pipeline; every strategy also runs on cpu");
}

absl::StatusOr<StagesOfDevice> StagesOn(const ChosenDevices& chosen,
                                        const v1::JobConfig& job,
                                        const InputSpec& input,
                                        uint32_t device) {
  ASSIGN_OR_RETURN(const PlannedModel planned, PlanModel(job, input, chosen));
  const std::vector<size_t>& begins = planned.pipeline.begins;
  if (device >= planned.pipeline.devices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pipeline is on ", planned.pipeline.devices,
                     " devices; there is no device ", device));
  }
  StagesOfDevice made;
  made.network = planned.network;
  for (size_t s = device; s < begins.size(); s += planned.pipeline.devices) {
    made.stages[static_cast<uint32_t>(s)] = std::make_unique<PipelineStage>(
        planned.network, begins[s],
        s + 1 < begins.size() ? begins[s + 1] : planned.network->layers->size(),
        chosen.makers.front()());
  }
  return made;
}

// What is made again is on the same device.
struct ChosenOnce {
  Mutex mutex;
  absl::optional<ChosenDevices> chosen ABSL_GUARDED_BY(mutex);
};

}  // namespace

MakeStages StagesOf(const v1::JobConfig& job) {
  return [job, once = std::make_shared<ChosenOnce>()](
             const InputSpec& input,
             uint32_t device) -> absl::StatusOr<StagesOfDevice> {
    const MutexLock lock(&once->mutex);
    if (!once->chosen.has_value()) {
      ASSIGN_OR_RETURN(once->chosen, ChooseForStages(job));
    }
    return StagesOn(*once->chosen, job, input, device);
  };
}

}  // namespace paramd
