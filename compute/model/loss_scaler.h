#ifndef PARAMD_COMPUTE_MODEL_LOSS_SCALER_H_
#define PARAMD_COMPUTE_MODEL_LOSS_SCALER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "compute/device/device.h"
#include "compute/device/device_link.h"
#include "compute/model/trained_model.h"

namespace paramd {

// Keeps gradients in the range of fp16 while they are computed: the loss is
// multiplied by a scale, so all gradients are, and each is divided by it before
// it leaves the device. Where one is not finite then, all are computed again
// with half the scale, so no example is lost (Micikevicius et al., ICLR 2018,
// section 3.2, leave such a step out).
//
// A scale that is remembered halves on each overflow and doubles after 2000
// steps without. One that is not makes a step a function of weights and batch.
//
//   for (double scale = scaler.Begin(options); ; scale = scaler.scale()) {
//     ...                                    // The loss times scale.
//     scaler.Unscale(gradient);              // Each of them.
//     if (!scaler.MustRepeat()) break;
//   }
//
// Not thread-safe, but for figures(): of the network's thread.
class LossScaler {
 public:
  static constexpr double kFirst = 65536;
  static constexpr double kLargest = 16777216;
  static constexpr uint32_t kStepsToDouble = 2000;

  // Scales only if the device computes in fp16. It outlives this.
  explicit LossScaler(Device* device);

  bool scales() const { return scales_; }
  // 1 if nothing is scaled.
  double scale() const { return scale_; }

  // A step of at most so many gradients begins. `fixed`: its first scale; 0: it
  // is found. Afterwards the device's status() says whether there was memory.
  void Begin(double fixed, bool remembers, size_t gradients);
  // The device divides this gradient, which what was called until now computes.
  void Unscale(const Tensor& gradient);
  // Waits for all of them. True: some were not finite, and scale() is smaller.
  // False: they are, or are so with no scale.
  bool MustRepeat();

  LossScaling figures() const {
    return {overflows_.load(std::memory_order_relaxed),
            used_.load(std::memory_order_relaxed)};
  }

 private:
  bool Overflowed();

  Device& device_;
  DeviceLink* const link_;  // Null: flags_ are the host's.
  const bool scales_;
  // Whether each gradient of the step is not finite, in order: float32.
  Device::Memory flags_;
  Device::Memory flags_twin_;
  size_t places_ = 0;
  size_t unscaled_ = 0;
  DeviceLink::Mark mark_ = 0;

  double remembered_ = kFirst;
  double scale_ = 1;  // Of the present step.
  bool remembers_ = false;
  uint32_t good_steps_ = 0;  // Since remembered_ was changed.
  std::atomic<uint64_t> overflows_{0};
  std::atomic<double> used_{0};
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_LOSS_SCALER_H_
