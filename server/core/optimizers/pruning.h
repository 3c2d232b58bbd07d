#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_PRUNING_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_PRUNING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "proto/paramd/v1/optimizer.pb.h"
#include "server/core/optimizers/rule.h"

namespace paramd {

// Gradual magnitude pruning (Zhu and Gupta, 2017) of one block. With t of its
// applications done, b and e begin_step and end_step, the share of zeros is
//
//   s(t) = s_f + (s_i - s_f) (1 - (t - b) / (e - b))^p        from b to e
//
// of the smallest magnitudes, of equals those that come first. That is done
// behind application b, then behind every so many, and behind e.
//
// The mask is the zeros themselves: a weight that is zero before application
// t > b is zero behind it, and so are its slots. Nothing lies beside a block
// that a checkpoint, a backup or a move could lose.
//
// Plain operations only: the same bits on every machine. At least one weight
// is left.
//
// Immutable, hence thread-safe.
class Pruning {
 public:
  // kInvalidArgument names what is out of its bounds.
  static absl::StatusOr<Pruning> Create(
      const v1::OptimizerConfig::Pruning& config);

  // s after so many applications; 0 before b.
  double Sparsity(uint64_t applied) const;

  // Which weights stay zero at the application after `applied` others, a bit
  // each; empty: none has to.
  std::vector<uint64_t> Mask(const float* values, size_t elements,
                             uint64_t applied) const;
  // Behind that application: what `mask` names is zero again, and if it is time
  // so is what has become small. Slots: `slots` arrays of as many elements.
  void Prune(const std::vector<uint64_t>& mask, uint64_t applied, size_t slots,
             const Rule::Arrays& arrays) const;

 private:
  explicit Pruning(const v1::OptimizerConfig::Pruning& config);
  bool IsTime(uint64_t applied) const;

  double sparsity_;
  double initial_sparsity_;
  uint64_t begin_step_;
  uint64_t end_step_;
  uint64_t every_steps_;
  double power_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_PRUNING_H_
