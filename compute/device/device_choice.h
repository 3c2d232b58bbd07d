#ifndef PARAMD_COMPUTE_DEVICE_DEVICE_CHOICE_H_
#define PARAMD_COMPUTE_DEVICE_DEVICE_CHOICE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "compute/device/compute_format.h"

namespace paramd {

// What was found of CUDA in a program and on a machine.
struct CudaProbe {
  struct Gpu {
    std::string name;     // "NVIDIA H100 80GB HBM3"
    std::string address;  // "0000:3b:00.0"
    uint64_t memory_bytes = 0;
    int capability = 0;  // 90: 9.0
  };

  bool is_built_in = false;
  int runtime_version = 0;  // 13000: 13.0
  int driver_version = 0;   // Likewise; 0: there is no driver.
  std::string error;        // CUDA's words, if it could not list GPUs.
  std::vector<Gpu> gpus;
};

// The oldest GPU that kernels are compiled for: Turing.
constexpr int kOldestCapability = 75;

// The oldest GPU whose tensor cores have bf16: Ampere.
constexpr int kOldestOfBf16 = 80;

// What the setting `device` comes to.
struct DeviceChoice {
  bool is_cuda = false;
  std::string plugin = {};  // The library of a PJRT plugin; empty: none.
  int index = 0;            // Of the GPU, or of the plugin's device.
  bool is_shared = false;   // Another process of the machine computes on it.

  bool operator==(const DeviceChoice& other) const {
    return is_cuda == other.is_cuda && plugin == other.plugin &&
           index == other.index && is_shared == other.is_shared;
  }
};

// Whether nobody else has the GPU of this address; it is taken then.
using ClaimDevice = absl::FunctionRef<bool(absl::string_view address)>;

// The device of each of so many replicas of one process.
//   cpu             Empty, in a job that no loader has filled in, means it too.
//   cuda:N          for all of them
//   cuda:0-3,6      one for each
//   cuda            GPUs that can be used, those first that are free; several
//                   are of one kind, of which there are most
//   auto            the same, but the processor if there are none; shared if
//                   there are fewer
//   pjrt:LIBRARY:N  its devices from N on; the library is not looked for here
// A sentence says what is wrong: INVALID_ARGUMENT, the setting is none of
// these, there are more GPUs in it, or fewer, than replicas or than the machine
// has, or they are of several kinds; FAILED_PRECONDITION, a GPU was asked for
// and the program, the driver or the GPU can't. REQUIRES: replicas > 0.
absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view setting, uint32_t replicas, const CudaProbe& probe,
    ClaimDevice claim);
// That of one.
absl::StatusOr<DeviceChoice> ChooseDevice(absl::string_view setting,
                                          const CudaProbe& probe,
                                          ClaimDevice claim);

// FAILED_PRECONDITION, a sentence: the probed cuda:`index` is too old for
// products of that format.
absl::Status CheckFormat(const CudaProbe& probe, int index,
                         ComputeFormat format);

// The setting that is this choice: "cuda:1".
std::string SettingOf(const DeviceChoice& choice);

// For people: "built without CUDA", "CUDA 13.0; this machine has no NVIDIA
// driver", "CUDA 13.0; cuda:0 NVIDIA H100 80GB HBM3 (79 GiB)".
std::string Describe(const CudaProbe& probe);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_DEVICE_CHOICE_H_
