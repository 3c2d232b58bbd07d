#ifndef PARAMD_COMPUTE_MODEL_SWAPPED_H_
#define PARAMD_COMPUTE_MODEL_SWAPPED_H_

#include <memory>
#include <string>
#include <utility>

#include "compute/model/recompute.h"

namespace paramd {

// Layers that keep what they keep in the context's SwapFile between the two
// passes: the forward pass writes it there, and the backward pass reads it
// again, in the scratch memory that a Recompute would have. The results have
// the same bits. A step whose file has failed is abandoned; one that does not
// train writes nothing. REQUIRES: the context of a step that trains has a file.
class Swapped : public Recompute {
 public:
  Swapped(std::string name, std::unique_ptr<Sequence> layers)
      : Recompute(std::move(name), std::move(layers)) {}

  void Forward(const Pass& pass) const override;
  uint64_t flops() const override { return layers().flops(); }

 protected:
  void KeepAgain(const BackwardPass& inner) const override;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_SWAPPED_H_
