#ifndef PARAMD_COMPUTE_DEVICE_CUDA_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_CUDA_DEVICE_H_

#include <memory>

#include "compute/device/accelerated_device.h"
#include "compute/device/device.h"
#include "compute/device/device_choice.h"

namespace paramd {

// What CUDA says of this machine. Never fails: what is wrong is in the probe.
CudaProbe ProbeCuda();

// A GPU. Kernels of our own and cuBLAS's products, in float32, the same bits
// for the same input. Never null: without such a device, without libcublas, or
// in a program that was built without CUDA its status() says so.
std::unique_ptr<Device> MakeCudaDevice(
    int index, const AcceleratedDevice::Options& options = {});

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_CUDA_DEVICE_H_
