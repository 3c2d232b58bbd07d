#ifndef PARAMD_COMPUTE_MODEL_RECOMPUTE_H_
#define PARAMD_COMPUTE_MODEL_RECOMPUTE_H_

#include <memory>
#include <string>
#include <vector>

#include "compute/model/sequence.h"

namespace paramd {

// Layers that keep nothing between the two passes: the backward pass computes
// their forward pass again (Chen et al., arXiv 1604.06174, 2016), in scratch
// memory that all layers of a network share. The results have the same bits as
// without it. Its variables are theirs.
class Recompute : public Layer {
 public:
  Recompute(std::string name, std::unique_ptr<Sequence> layers);

  bool reads_output() const override { return layers_->reads_output(); }
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  uint64_t flops() const override;
  void AddCost(int depth, std::vector<LayerCost>* costs) const override;

  const Sequence& layers() const { return *layers_; }

 protected:
  // Has the layers keep again, for this pass over them, what they kept in the
  // forward pass.
  virtual void KeepAgain(const BackwardPass& inner) const {
    layers_->KeepAgain(inner);
  }

 private:
  // The part of scratch memory before the layers' own.
  struct Laid {
    std::byte* kept = nullptr;
    Tensor output;  // Written, and never read, if Backward does not need it.
    uint64_t bytes = 0;
  };

  Laid Lay(uint64_t examples, DType dtype, std::byte* memory) const;

  const std::unique_ptr<Sequence> layers_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_RECOMPUTE_H_
