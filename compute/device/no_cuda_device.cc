#include "compute/device/cuda_device.h"
#include "compute/device/reference_device.h"

namespace paramd {
namespace {

// Computes nothing that anybody sees.
class NoCudaDevice : public ReferenceDevice {
 public:
  absl::Status status() const override {
    return absl::UnimplementedError("this program was built without CUDA");
  }
};

}  // namespace

CudaProbe ProbeCuda() { return {}; }

std::unique_ptr<Device> MakeCudaDevice(
    int /*index*/, const AcceleratedDevice::Options& /*options*/) {
  return std::make_unique<NoCudaDevice>();
}

}  // namespace paramd
