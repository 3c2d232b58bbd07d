#include "compute/device/device_choice.h"

#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
    return absl::StrCat(
        "the NVIDIA driver is for CUDA ", VersionOf(probe.driver_version),
        "; this program needs ", VersionOf(probe.runtime_version));
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

// The library and the number of "pjrt:LIBRARY:N", whose library may have
// colons.
bool IsPlugin(absl::string_view setting, DeviceChoice* choice) {
  uint32_t index = 0;
  if (!absl::ConsumePrefix(&setting, "pjrt:")) return false;
  const size_t colon = setting.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      !IsNumber(setting.substr(colon + 1), &index) ||
      index > kMostPluginIndex) {
    return false;
  }
  choice->plugin = std::string(setting.substr(0, colon));
  choice->index = static_cast<int>(index);
  return true;
}

// "1 GPU: cuda:0".
std::string CountText(const CudaProbe& probe) {
  const size_t count = probe.gpus.size();
  return count == 1 ? std::string("1 GPU: cuda:0")
                    : absl::StrCat(count, " GPUs: cuda:0 to cuda:", count - 1);
}

// What most of the GPUs that can be used are called; of equally many, the
// first.
std::string MostFrequentKind(const CudaProbe& probe) {
  std::map<std::string, size_t> counts;
  std::string kind;
  for (size_t i = probe.gpus.size(); i-- > 0;) {
    if (!CheckGpu(probe, static_cast<int>(i)).ok()) continue;
    const std::string& name = probe.gpus[i].name;
    if (++counts[name] >= counts[kind]) kind = name;
  }
  return kind;
}

// The GPUs that can be used, those first that are free, of which so many are
// taken. Several are of one kind.
std::vector<DeviceChoice> ChooseFreeGpus(uint32_t wanted,
                                         const CudaProbe& probe,
                                         ClaimDevice claim) {
  std::vector<DeviceChoice> free;
  std::vector<DeviceChoice> shared;
  const std::string kind = MostFrequentKind(probe);
  for (int i = 0; i < static_cast<int>(probe.gpus.size()); ++i) {
    if (free.size() == wanted) break;
    if (!CheckGpu(probe, i).ok()) continue;
    if (wanted > 1 && probe.gpus[i].name != kind) continue;
    const bool is_free = claim(probe.gpus[i].address);
    (is_free ? free : shared)
        .push_back({.is_cuda = true, .index = i, .is_shared = !is_free});
  }
  free.insert(free.end(), shared.begin(), shared.end());
  if (free.size() > wanted) free.resize(wanted);
  return free;
}

// The numbers of "0-3,6". False if it is no such list.
bool IsList(absl::string_view text, std::vector<uint32_t>* numbers) {
  // More than a machine has: a slip.
  constexpr uint32_t kMost = 1024;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(part, absl::MaxSplits('-', 1));
    const bool is_range = part.find('-') != absl::string_view::npos;
    uint32_t first = 0;
    uint32_t last = 0;
    if (!IsNumber(ends.first, &first)) return false;
    if (!is_range) last = first;
    if (is_range && !IsNumber(ends.second, &last)) return false;
    if (last < first || last - first >= kMost) return false;
    for (uint64_t n = first; n <= last; ++n) {
      numbers->push_back(static_cast<uint32_t>(n));
    }
  }
  return numbers->size() <= kMost;
}

// Of a setting that names GPUs.
absl::StatusOr<std::vector<DeviceChoice>> ChooseNamedGpus(
    absl::string_view setting, const std::vector<uint32_t>& numbers,
    uint32_t replicas, const CudaProbe& probe, ClaimDevice claim) {
  if (numbers.size() > 1 && numbers.size() != replicas) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device ", setting, " names ", numbers.size(), " GPUs for ", replicas,
        replicas == 1 ? " replica" : " replicas",
        " in this process; give \"replicas\": ", numbers.size(),
        ", or as many GPUs as replicas"));
  }
  std::vector<DeviceChoice> choices;
  for (const uint32_t number : numbers) {
    if (number >= probe.gpus.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "device is ", setting, "; this machine has ", CountText(probe)));
    }
    const int index = static_cast<int>(number);
    RETURN_IF_ERROR(CheckGpu(probe, index));
    const std::string& first = probe.gpus[numbers.front()].name;
    if (probe.gpus[index].name != first) {
      return absl::InvalidArgumentError(absl::StrCat(
          "cuda:", numbers.front(), " is an ", first, ", cuda:", index, " an ",
          probe.gpus[index].name,
          ": replicas of one process need equal GPUs; with strategy "
          "\"parameter_server\" each may have a worker of its own"));
    }
    choices.push_back({.is_cuda = true,
                       .index = index,
                       .is_shared = !claim(probe.gpus[index].address)});
  }
  choices.resize(replicas, choices.front());
  return choices;
}

}  // namespace

absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view setting, uint32_t replicas, const CudaProbe& probe,
    ClaimDevice claim) {
  std::vector<DeviceChoice> choices(replicas);
  if (setting.empty() || setting == "cpu") return choices;
  DeviceChoice plugin;
  if (IsPlugin(setting, &plugin)) {
    for (DeviceChoice& choice : choices) {
      choice = plugin;
      ++plugin.index;
    }
    return choices;
  }
  const std::string reason = Reason(probe);
  std::vector<DeviceChoice> free;
  if (reason.empty() && (setting == "auto" || setting == "cuda")) {
    free = ChooseFreeGpus(replicas, probe, claim);
  }
  if (setting == "auto") {
    for (uint32_t r = 0; r < replicas && !free.empty(); ++r) {
      choices[r] = free[r % free.size()];
    }
    return choices;
  }
  absl::string_view list = setting;
  std::vector<uint32_t> numbers;
  if (setting != "cuda" &&
      (!absl::ConsumePrefix(&list, "cuda:") || !IsList(list, &numbers))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device is '", setting,
        "'; it must be cpu, auto, cuda, or cuda:0 and "
        "so on, cuda:0-3 for several replicas, or pjrt:LIBRARY:0 for a device "
        "of a PJRT plugin"));
  }
  if (!reason.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", setting, " can't be used: ", reason,
                     "; every strategy also runs on cpu"));
  }
  if (setting != "cuda") {
    return ChooseNamedGpus(setting, numbers, replicas, probe, claim);
  }
  if (free.size() == replicas) return free;
  return absl::InvalidArgumentError(absl::StrCat(
      "device is cuda, for ", replicas, " replicas; this machine has ",
      CountText(probe), ", of which ", free.size(),
      free.size() == 1 ? " can be used" : " are equal and can be used"));
}

absl::Status CheckFormat(const CudaProbe& probe, int index,
                         ComputeFormat format) {
  if (format != ComputeFormat::kBf16 && format != ComputeFormat::kTf32) {
    return absl::OkStatus();
  }
  return CheckCapability(
      probe, index, kOldestOfBf16,
      absl::StrCat("compute_format ", NameOf(format), " needs"));
}

absl::StatusOr<DeviceChoice> ChooseDevice(absl::string_view setting,
                                          const CudaProbe& probe,
                                          ClaimDevice claim) {
  auto choices = ChooseDevices(setting, 1, probe, claim);
  if (!choices.ok()) return choices.status();
  return choices->front();
}

std::string SettingOf(const DeviceChoice& choice) {
  if (choice.is_cuda) return absl::StrCat("cuda:", choice.index);
  if (choice.plugin.empty()) return "cpu";
  return absl::StrCat("pjrt:", choice.plugin, ":", choice.index);
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
