// paramd, whose networks compute on emulated accelerators, one for each
// replica: devices with a memory and a time of their own, whose arithmetic is
// that of the processor. EMULATED_LOST_AFTER=N in the environment loses the
// last replica's after it was given so many things to do. With
// EMULATED_NCCL=missing there is no library that sums between processes.
#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

#include "cli/main.h"
#include "compute/device/testing/emulated_device.h"
#include "compute/model/network.h"
#include "config/strategy.h"

namespace paramd {
namespace {

uint64_t LostAfter() {
  const char* const text = std::getenv("EMULATED_LOST_AFTER");
  uint64_t after = 0;
  if (text == nullptr || !absl::SimpleAtoi(text, &after)) return 0;
  return after;
}

absl::StatusOr<Nccl> LoadNccl() {
  const char* const text = std::getenv("EMULATED_NCCL");
  if (text == nullptr || absl::string_view(text) != "missing") {
    return EmulatedNccl::Load();
  }
  return absl::FailedPreconditionError("NCCL can't be loaded (install it)");
}

std::unique_ptr<Device> MakeDevice(uint64_t lost_after) {
  static std::atomic<uint64_t> made{0};
  return std::make_unique<EmulatedDevice>(EmulatedAccelerator::Options{
      .seed = ++made, .lost_after = lost_after, .nccl = LoadNccl});
}

ModelFactory EmulatedModels() {
  return [](const v1::JobConfig& job, const InputSpec& input)
             -> absl::StatusOr<std::unique_ptr<TrainedModel>> {
    std::vector<Network::MakeDevice> of_replicas;
    for (uint32_t r = 0; r < ReplicasOf(job); ++r) {
      const uint64_t lost_after = r + 1 == ReplicasOf(job) ? LostAfter() : 0;
      of_replicas.push_back([lost_after] { return MakeDevice(lost_after); });
    }
    auto network = Network::Create(
        job.model(), input, [] { return MakeDevice(/*lost_after=*/0); },
        "emulated", std::move(of_replicas));
    if (!network.ok()) return network.status();
    return std::unique_ptr<TrainedModel>(*std::move(network));
  };
}

}  // namespace
}  // namespace paramd

int main(int argc, char** argv) {
  return paramd::Main(argc, argv, paramd::EmulatedModels());
}
