#include "compute/device/device_choice.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace paramd {
namespace {

CudaProbe WithGpus(int count) {
  CudaProbe probe;
  probe.is_built_in = true;
  probe.runtime_version = 13000;
  probe.driver_version = 13010;
  for (int i = 0; i < count; ++i) {
    probe.gpus.push_back({"NVIDIA H100", absl::StrCat("0000:0", i, ":00.0"),
                          uint64_t{80} << 30, 90});
  }
  return probe;
}

// Where nobody else computes.
absl::StatusOr<DeviceChoice> Choose(absl::string_view setting,
                                    const CudaProbe& probe) {
  return ChooseDevice(setting, probe, [](absl::string_view) { return true; });
}

std::string Refusal(absl::string_view setting, const CudaProbe& probe,
                    absl::StatusCode code) {
  const auto chosen = Choose(setting, probe);
  EXPECT_EQ(chosen.status().code(), code);
  return std::string(chosen.status().message());
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kCannot = absl::StatusCode::kFailedPrecondition;

TEST(DeviceChoiceTest, AGpuIsChosenByItsNumber) {
  EXPECT_EQ(*Choose("cuda:3", WithGpus(4)),
            (DeviceChoice{.is_cuda = true, .index = 3}));
}

TEST(DeviceChoiceTest, AGpuThatIsTooOldForAFormatIsRefused) {
  CudaProbe probe = WithGpus(2);
  EXPECT_TRUE(CheckFormat(probe, 1, ComputeFormat::kBf16).ok());
  probe.gpus[1].name = "Tesla T4";
  probe.gpus[1].capability = 75;
  EXPECT_EQ(CheckFormat(probe, 1, ComputeFormat::kBf16),
            absl::FailedPreconditionError(
                "cuda:1 (Tesla T4) has compute capability 7.5; compute_format "
                "bf16 needs 8.0"));
  EXPECT_TRUE(CheckFormat(probe, 0, ComputeFormat::kBf16).ok());
  // Its cores have the one; the other is rounded only where that is faster.
  EXPECT_TRUE(CheckFormat(probe, 1, ComputeFormat::kFp16).ok());
  EXPECT_FALSE(CheckFormat(probe, 1, ComputeFormat::kTf32).ok());
}

TEST(DeviceChoiceTest, APluginsDeviceIsChosenByLibraryAndNumber) {
  EXPECT_EQ(*Choose("pjrt:/lib/a:b.so:3", CudaProbe()),
            (DeviceChoice{.plugin = "/lib/a:b.so", .index = 3}));
}

TEST(DeviceChoiceTest, APluginWithoutLibraryOrNumberIsRefused) {
  for (const char* setting :
       {"pjrt:", "pjrt::0", "pjrt:a.so", "pjrt:a.so:", "pjrt:a.so:-1",
        "pjrt:a.so:x", "pjrt:a.so:4294967296", "pjrt:a.so:70000"}) {
    EXPECT_EQ(Refusal(setting, CudaProbe(), kInvalid),
              absl::StrCat("device is '", setting,
                           "'; it must be cpu, auto, cuda, or cuda:0 and so "
                           "on, cuda:0-3 for several replicas, or "
                           "pjrt:LIBRARY:0 for a device of a PJRT plugin"));
  }
}

// The settings of so many replicas, or why there are none.
std::string Of(absl::string_view setting, uint32_t replicas,
               const CudaProbe& probe, ClaimDevice claim) {
  const auto chosen = ChooseDevices(setting, replicas, probe, claim);
  if (!chosen.ok()) return std::string(chosen.status().message());
  std::string all;
  for (const DeviceChoice& choice : *chosen) {
    absl::StrAppend(&all, all.empty() ? "" : " ", SettingOf(choice),
                    choice.is_shared ? " (shared)" : "");
  }
  return all;
}

std::string Of(absl::string_view setting, uint32_t replicas,
               const CudaProbe& probe) {
  return Of(setting, replicas, probe, [](absl::string_view) { return true; });
}

TEST(DeviceChoiceTest, ReplicasHaveThePluginsDevicesFromTheSettingsOneOn) {
  EXPECT_EQ(Of("pjrt:a.so:1", 3, CudaProbe()),
            "pjrt:a.so:1 pjrt:a.so:2 pjrt:a.so:3");
}

TEST(DeviceChoiceTest, ReplicasHaveTheGpusThatAreNamedOneEach) {
  EXPECT_EQ(Of("cuda:0-2", 3, WithGpus(4)), "cuda:0 cuda:1 cuda:2");
  EXPECT_EQ(Of("cuda:3,0-1", 3, WithGpus(4)), "cuda:3 cuda:0 cuda:1");
  EXPECT_EQ(Of("cuda:2-2", 1, WithGpus(4)), "cuda:2");
  EXPECT_EQ(Of("cpu", 2, WithGpus(4)), "cpu cpu");
}

TEST(DeviceChoiceTest, OneNamedGpuIsForAllReplicas) {
  EXPECT_EQ(Of("cuda:1", 2, WithGpus(4)), "cuda:1 cuda:1");
}

TEST(DeviceChoiceTest, OtherNumbersOfGpusAndReplicasAreRefused) {
  EXPECT_EQ(Of("cuda:0-3", 1, WithGpus(4)),
            "device cuda:0-3 names 4 GPUs for 1 replica in this process; give "
            "\"replicas\": 4, or as many GPUs as replicas");
  EXPECT_EQ(Of("cuda:0,1", 4, WithGpus(4)),
            "device cuda:0,1 names 2 GPUs for 4 replicas in this process; give "
            "\"replicas\": 2, or as many GPUs as replicas");
  EXPECT_EQ(Of("cuda:0-4", 5, WithGpus(4)),
            "device is cuda:0-4; this machine has 4 GPUs: cuda:0 to cuda:3");
}

TEST(DeviceChoiceTest, CudaIsAsManyFreeGpusAsReplicas) {
  const auto odd_ones_are_free = [](absl::string_view address) {
    return address[6] % 2 == 1;
  };
  EXPECT_EQ(Of("cuda", 2, WithGpus(5)), "cuda:0 cuda:1");
  EXPECT_EQ(Of("cuda", 2, WithGpus(5), odd_ones_are_free), "cuda:1 cuda:3");
  EXPECT_EQ(Of("auto", 3, WithGpus(5), odd_ones_are_free),
            "cuda:1 cuda:3 cuda:0 (shared)");
  EXPECT_EQ(Of("cuda", 3, WithGpus(2)),
            "device is cuda, for 3 replicas; this machine has 2 GPUs: cuda:0 "
            "to cuda:1, of which 2 are equal and can be used");
  EXPECT_EQ(Of("cuda", 3, CudaProbe()),
            "device cuda can't be used: this program was built without CUDA; "
            "every strategy also runs on cpu");
  EXPECT_EQ(Of("auto", 2, CudaProbe()), "cpu cpu");
}

TEST(DeviceChoiceTest, AutoSharesGpusIfThereAreFewerThanReplicas) {
  EXPECT_EQ(Of("auto", 3, WithGpus(2)), "cuda:0 cuda:1 cuda:0");
}

TEST(DeviceChoiceTest, ReplicasHaveEqualGpus) {
  CudaProbe probe = WithGpus(5);
  probe.gpus[0].name = "NVIDIA T400";
  probe.gpus[3].name = "NVIDIA A100";
  EXPECT_EQ(Of("cuda", 3, probe), "cuda:1 cuda:2 cuda:4");
  EXPECT_EQ(Of("auto", 4, probe), "cuda:1 cuda:2 cuda:4 cuda:1");
  EXPECT_EQ(Of("auto", 1, probe), "cuda:0");
  EXPECT_EQ(Of("cuda:1,3", 2, probe),
            "cuda:1 is an NVIDIA H100, cuda:3 an NVIDIA A100: replicas of one "
            "process need equal GPUs; with strategy \"parameter_server\" each "
            "may have a worker of its own");
}

TEST(DeviceChoiceTest, NoMoreGpusAreTakenThanThereAreReplicas) {
  int taken = 0;
  const auto claim = [&](absl::string_view) { return ++taken > 0; };
  EXPECT_EQ(Of("auto", 2, WithGpus(8), claim), "cuda:0 cuda:1");
  EXPECT_EQ(taken, 2);
}

TEST(DeviceChoiceTest, TheProcessorNeedsNothing) {
  EXPECT_EQ(*Choose("cpu", WithGpus(4)), DeviceChoice());
  EXPECT_EQ(*Choose("cpu", CudaProbe()), DeviceChoice());
}

TEST(DeviceChoiceTest, AutoIsTheFirstGpuThatCanBeUsed) {
  CudaProbe probe = WithGpus(3);
  probe.gpus[0].capability = 61;
  EXPECT_EQ(*Choose("auto", probe),
            (DeviceChoice{.is_cuda = true, .index = 1}));
}

TEST(DeviceChoiceTest, AJobThatNoLoaderHasFilledInMeansTheProcessor) {
  EXPECT_EQ(*Choose("", WithGpus(2)), DeviceChoice());
}

TEST(DeviceChoiceTest, AutoTakesAFreeGpuAndElseSharesTheFirst) {
  const auto second_is_free = [](absl::string_view address) {
    return address == "0000:01:00.0";
  };
  EXPECT_EQ(*ChooseDevice("auto", WithGpus(3), second_is_free),
            (DeviceChoice{.is_cuda = true, .index = 1}));
  EXPECT_EQ(*ChooseDevice("auto", WithGpus(1), second_is_free),
            (DeviceChoice{.is_cuda = true, .index = 0, .is_shared = true}));
}

TEST(DeviceChoiceTest, TwoProcessesMayBeToldTheSameGpu) {
  EXPECT_EQ(*ChooseDevice("cuda:1", WithGpus(2),
                          [](absl::string_view) { return false; }),
            (DeviceChoice{.is_cuda = true, .index = 1, .is_shared = true}));
}

TEST(DeviceChoiceTest, AutoIsTheProcessorWhereNoGpuCanBeUsed) {
  CudaProbe old = WithGpus(1);
  old.driver_version = 12020;
  CudaProbe broken = WithGpus(1);
  broken.error = "initialization error";
  CudaProbe none = WithGpus(0);
  none.driver_version = 0;
  for (const CudaProbe& probe : {CudaProbe(), WithGpus(0), old, broken, none}) {
    EXPECT_EQ(*Choose("auto", probe), DeviceChoice());
  }
}

TEST(DeviceChoiceTest, AProgramWithoutCudaSaysSo) {
  EXPECT_EQ(Refusal("cuda:0", CudaProbe(), kCannot),
            "device cuda:0 can't be used: this program was built without CUDA; "
            "every strategy also runs on cpu");
}

TEST(DeviceChoiceTest, AMachineWithoutADriverSaysSo) {
  CudaProbe probe = WithGpus(0);
  probe.driver_version = 0;
  probe.error = "CUDA driver version is insufficient for CUDA runtime version";
  EXPECT_EQ(Refusal("cuda:0", probe, kCannot),
            "device cuda:0 can't be used: this machine has no NVIDIA driver; "
            "every strategy also runs on cpu");
}

TEST(DeviceChoiceTest, ADriverThatIsTooOldSaysSo) {
  CudaProbe probe = WithGpus(0);
  probe.driver_version = 12020;
  EXPECT_EQ(Refusal("cuda:0", probe, kCannot),
            "device cuda:0 can't be used: the NVIDIA driver is for CUDA 12.2; "
            "this program needs 13.0; every strategy also runs on cpu");
}

TEST(DeviceChoiceTest, WhatCudaSaysIsPassedOn) {
  CudaProbe probe = WithGpus(0);
  probe.error = "system not yet initialized";
  EXPECT_EQ(Refusal("cuda:0", probe, kCannot),
            "device cuda:0 can't be used: CUDA says: system not yet "
            "initialized; every strategy also runs on cpu");
}

TEST(DeviceChoiceTest, ANumberBeyondTheGpusSaysHowManyThereAre) {
  EXPECT_EQ(Refusal("cuda:9", WithGpus(8), kInvalid),
            "device is cuda:9; this machine has 8 GPUs: cuda:0 to cuda:7");
  EXPECT_EQ(Refusal("cuda:1", WithGpus(1), kInvalid),
            "device is cuda:1; this machine has 1 GPU: cuda:0");
  EXPECT_EQ(Refusal("cuda:0", WithGpus(0), kCannot),
            "device cuda:0 can't be used: this machine has no NVIDIA GPU; "
            "every strategy also runs on cpu");
}

TEST(DeviceChoiceTest, AGpuThatIsTooOldSaysSo) {
  CudaProbe probe = WithGpus(1);
  probe.gpus[0].name = "Tesla P100";
  probe.gpus[0].capability = 60;
  EXPECT_EQ(Refusal("cuda:0", probe, kCannot),
            "cuda:0 (Tesla P100) has compute capability 6.0; kernels need 7.5");
}

TEST(DeviceChoiceTest, AnythingElseIsRefused) {
  for (const char* setting :
       {"gpu", "cuda:", "cuda:-1", "cuda: 1", "cuda:99999999999", "cuda:0x",
        "CPU", "cuda:0,", "cuda:,0", "cuda:3-1", "cuda:0-", "cuda:0-1-2",
        "cuda:0-4294967295", "cuda0"}) {
    EXPECT_EQ(Refusal(setting, WithGpus(1), kInvalid),
              std::string("device is '") + setting +
                  "'; it must be cpu, auto, cuda, or cuda:0 and so on, "
                  "cuda:0-3 for several replicas, or pjrt:LIBRARY:0 for a "
                  "device of a PJRT plugin");
  }
}

TEST(DeviceChoiceTest, WhatThereIsIsDescribed) {
  EXPECT_EQ(Describe(CudaProbe()), "built without CUDA");
  EXPECT_EQ(Describe(WithGpus(2)),
            "CUDA 13.0; cuda:0 NVIDIA H100 (80 GiB), cuda:1 NVIDIA H100 "
            "(80 GiB)");
  EXPECT_EQ(Describe(WithGpus(0)), "CUDA 13.0; this machine has no NVIDIA GPU");
}

}  // namespace
}  // namespace paramd
