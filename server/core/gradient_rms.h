#ifndef PARAMD_SERVER_CORE_GRADIENT_RMS_H_
#define PARAMD_SERVER_CORE_GRADIENT_RMS_H_

#include <cstdint>

namespace paramd {

// The running root mean square of the gradients that a block has taken, by
// which a spike is recognised. Over the first kWarmUp gradients it is the plain
// mean (of the squares); after them each new one has a weight of 1 / kWarmUp.
// Before that nothing counts as a spike: the first gradients of a training are
// no measure of the rest.
//
// Invariant: once warm, saved() is all there is to it, so a restored server
// goes on with the same bits; nothing of a warm-up is saved.
//
// Not thread-safe: lives inside a Block.
class GradientRms {
 public:
  static constexpr uint32_t kWarmUp = 50;

  // Whether a gradient of this mean square is above `factor` times the running
  // root mean square. Never before the warm-up, nor if all gradients so far
  // were zero.
  bool IsSpike(double mean_square, double factor) const;

  // Such a gradient has been applied. REQUIRES: finite.
  void Add(double mean_square);

  float value() const { return rms_; }
  // It is of so many, those of a warm-up included.
  uint32_t gradients() const { return gradients_; }
  // Goes on from these two. What is no such number begins anew.
  void Set(float value, uint32_t gradients);

  // What a checkpoint keeps: the value, or 0 during the warm-up, which then
  // begins anew.
  float saved() const { return gradients_ < kWarmUp ? 0 : rms_; }
  // Goes on from saved(). What is no such number begins anew.
  void Restore(float saved);

 private:
  float rms_ = 0;
  uint32_t gradients_ = 0;  // At most kWarmUp.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_GRADIENT_RMS_H_
