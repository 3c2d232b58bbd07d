#ifndef CUSTOM_MODEL_DEVICE_H_
#define CUSTOM_MODEL_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paramd.h"

struct Images {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
};

// Who computes softmax regression on these images. One thread uses it at a
// time.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;
  // Losses and, for a step, gradients. Says why it can't, or nothing.
  virtual std::string Compute(const paramd_work& work,
                              paramd_result* result) = 0;
};

// The images have to outlive it.
std::unique_ptr<Device> MakeProcessor(const Images& training,
                                      const Images& test);

// Null where there is no GPU, or this was built without CUDA. The images are
// copied.
std::unique_ptr<Device> MakeGpu(const Images& training, const Images& test);

#endif  // CUSTOM_MODEL_DEVICE_H_
