#include "worker/device/device_choice.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

// A number of a device that is above is a slip.
constexpr uint32_t kMostPluginIndex = 65535;

std::string VersionOf(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// Why no GPU can be used; empty if one may be.
std::string Reason(const CudaProbe& probe) {
  if (!probe.is_built_in) return "this program was built without CUDA";
  if (probe.driver_version == 0) return "this machine has no NVIDIA driver";
  if (probe.driver_version / 1000 < probe.runtime_version / 1000) {
    return absl::StrCat("the NVIDIA driver is for CUDA ",
                        VersionOf(probe.driver_version),
                        "; this program needs ",
                        VersionOf(probe.runtime_version));
  }
  if (!probe.error.empty()) return absl::StrCat("CUDA says: ", probe.error);
  if (probe.gpus.empty()) return "this machine has no NVIDIA GPU";
  return "";
}

// "8.0"
std::string CapabilityText(int capability) {
  return absl::StrCat(capability / 10, ".", capability % 10);
}

// OK if the GPU is not older than that. `who` needs it.
absl::Status CheckCapability(const CudaProbe& probe, int index, int oldest,
                             absl::string_view who) {
  const CudaProbe::Gpu& gpu = probe.gpus[index];
  if (gpu.capability >= oldest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "cuda:", index, " (", gpu.name, ") has compute capability ",
      CapabilityText(gpu.capability), "; ", who, " ", CapabilityText(oldest)));
}

absl::Status CheckGpu(const CudaProbe& probe, int index) {
  return CheckCapability(probe, index, kOldestCapability, "kernels need");
}

// "12", and nothing else.
bool IsNumber(absl::string_view text, uint32_t* number) {
  return text.find_first_not_of("0123456789") == absl::string_view::npos &&
         absl::SimpleAtoi(text, number);
}

// The library and the number of "pjrt:LIBRARY:N", whose library may have colons.
bool IsPlugin(absl::string_view setting, DeviceChoice* choice) {
  uint32_t index = 0;
  if (!absl::ConsumePrefix(&setting, "pjrt:")) return false;
  const size_t colon = setting.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      !IsNumber(setting.substr(colon + 1), &index) || index > kMostPluginIndex) {
    return false;
  }
  choice->plugin = std::string(setting.substr(0, colon));
  choice->index = static_cast<int>(index);
  return true;
}

DeviceChoice ChooseFreeGpu(const CudaProbe& probe, ClaimDevice claim) {
  DeviceChoice first;
  for (int i = 0; i < static_cast<int>(probe.gpus.size()); ++i) {
    if (!CheckGpu(probe, i).ok()) continue;
    if (claim(probe.gpus[i].address)) return {.is_cuda = true, .index = i};
    if (!first.is_cuda) {
      first = {.is_cuda = true, .index = i, .is_shared = true};
    }
  }
  return first;
}

}  // namespace

absl::StatusOr<DeviceChoice> ChooseDevice(absl::string_view setting,
                                          const CudaProbe& probe,
                                          ClaimDevice claim) {
  if (setting.empty() || setting == "cpu") return DeviceChoice();
  DeviceChoice plugin;
  if (IsPlugin(setting, &plugin)) return plugin;
  const std::string reason = Reason(probe);
  if (setting == "auto") {
    return reason.empty() ? ChooseFreeGpu(probe, claim) : DeviceChoice();
  }
  absl::string_view number = setting;
  uint32_t index = 0;
  if (!absl::ConsumePrefix(&number, "cuda:") || !IsNumber(number, &index)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device is '", setting, "'; it must be cpu, auto, or cuda:0 and so on, "
        "or pjrt:LIBRARY:0 for a device of a PJRT plugin"));
  }
  if (!reason.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", setting, " can't be used: ", reason,
                     "; every strategy also runs on cpu"));
  }
  const size_t count = probe.gpus.size();
  if (index >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device is ", setting, "; this machine has ", count,
        count == 1 ? " GPU: cuda:0"
                   : absl::StrCat(" GPUs: cuda:0 to cuda:", count - 1)));
  }
  RETURN_IF_ERROR(CheckGpu(probe, static_cast<int>(index)));
  return DeviceChoice{.is_cuda = true,
                      .index = static_cast<int>(index),
                      .is_shared = !claim(probe.gpus[index].address)};
}

absl::Status CheckFormat(const CudaProbe& probe, int index,
                         ComputeFormat format) {
  if (format != ComputeFormat::kBf16) return absl::OkStatus();
  return CheckCapability(probe, index, kOldestOfBf16,
                         "compute_format bf16 needs");
}

std::string DeviceOfReplica(absl::string_view setting, uint32_t replica) {
  DeviceChoice choice;
  if (!IsPlugin(setting, &choice)) return std::string(setting);
  return absl::StrCat("pjrt:", choice.plugin, ":", choice.index + replica);
}

std::string Describe(const CudaProbe& probe) {
  if (!probe.is_built_in) return "built without CUDA";
  std::string text = absl::StrCat("CUDA ", VersionOf(probe.runtime_version));
  const std::string reason = Reason(probe);
  if (!reason.empty()) return absl::StrCat(text, "; ", reason);
  for (size_t i = 0; i < probe.gpus.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "; " : ", ", "cuda:", i, " ",
                    probe.gpus[i].name, " (", probe.gpus[i].memory_bytes >> 30,
                    " GiB)");
  }
  return text;
}

}  // namespace paramd
