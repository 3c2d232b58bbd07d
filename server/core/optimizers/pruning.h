#ifndef PARAMD_SERVER_CORE_OPTIMIZERS_PRUNING_H_
#define PARAMD_SERVER_CORE_OPTIMIZERS_PRUNING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/optimizer.pb.h"
#include "server/core/optimizers/rule.h"

namespace paramd {

// Where a block lies in a kernel whose last two dimensions these are: weights
// of consecutive inputs of an output lie `outputs` elements apart.
struct KernelPlace {
  uint64_t first = 0;  // Element of the kernel.
  uint64_t inputs = 1;
  uint64_t outputs = 1;
};

// Gradual magnitude pruning (Zhu and Gupta, 2017) of one block. With t of its
// applications done, b and e begin_step and end_step, the share of zeros is
//
//   s(t) = s_f + (s_i - s_f) (1 - (t - b) / (e - b))^p        from b to e
//
// of the smallest magnitudes, of equals those that come first. That is done
// behind application b, then behind every so many, and behind e.
//
// Structure two_of_four: only what is not among the two largest of each four
// consecutive inputs of an output becomes zero, and behind e all of that. Fewer
// than four at the end of the inputs keep two as well. Where borders of blocks
// cut four, each part keeps as many as it has of the first and the third of
// them: so they are two for any cut, though perhaps not the two largest.
//
// Scope global: one threshold for all blocks, which somebody else finds in what
// all weights are behind application t of those, and which is handed in with
// application t + 1.
//
// Structure channels: the share is of the channels of a layer, of which a block
// may have some weights of each. Those that go are of what the layer's weights
// are behind application t, and are handed in with application t + 1, too.
//
// The mask is the zeros themselves: a weight that is zero before application
// t > b is zero behind it, and so are its slots. Nothing lies beside a block
// that a checkpoint, a backup or a move could lose.
//
// Plain operations only: the same bits on every machine. At least one weight
// is left of a block, but for two_of_four where a block has only second and
// fourth inputs.
//
// Immutable, hence thread-safe.
class Pruning {
 public:
  // kInvalidArgument names what is out of its bounds.
  static absl::StatusOr<Pruning> Create(
      const v1::OptimizerConfig::Pruning& config);

  bool is_global() const { return is_global_; }
  bool is_of_channels() const { return is_of_channels_; }
  // s after so many applications; 0 before b.
  double Sparsity(uint64_t applied) const;
  // Whether what is zero after so many applications stays zero.
  bool HasBegun(uint64_t applied) const { return applied >= begin_step_; }
  // Whether behind so many applications more is to become zero.
  bool IsTime(uint64_t applied) const;

  // Which weights are zero behind the application after `applied` others, a bit
  // each: those that are now, and, if it is time behind those others, those
  // smaller than `below`; empty: none has to be.
  std::vector<uint64_t> Mask(const float* values, size_t elements,
                             uint64_t applied, float below = 0) const;
  // The same for the weights of channels that go, if it is time behind those
  // others: the block begins with element `first` of a variable whose last
  // dimension are the channels. REQUIRES: `mask` is what Mask gave.
  void AddChannels(absl::Span<const uint8_t> gone, uint64_t first,
                   size_t elements, uint64_t applied,
                   std::vector<uint64_t>* mask) const;
  // Behind that application: what `mask` names becomes zero, and if it is time,
  // and not decided elsewhere, so does what is small. Slots: `slots` arrays of
  // as many elements.
  void Prune(const std::vector<uint64_t>& mask, uint64_t applied, size_t slots,
             const Rule::Arrays& arrays, const KernelPlace& place = {}) const;

 private:
  explicit Pruning(const v1::OptimizerConfig::Pruning& config);
  // What becomes zero of these behind so many applications.
  std::vector<uint64_t> SmallestOf(const float* values, size_t elements,
                                   uint64_t applied,
                                   const KernelPlace& place) const;

  bool two_of_four_;
  bool is_of_channels_;
  bool is_global_;
  double sparsity_;
  double initial_sparsity_;
  uint64_t begin_step_;
  uint64_t end_step_;
  uint64_t every_steps_;
  double power_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZERS_PRUNING_H_
