#ifndef PARAMD_WORKER_MODEL_RECOMPUTE_H_
#define PARAMD_WORKER_MODEL_RECOMPUTE_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/model/sequence.h"

namespace paramd {

// Layers that keep nothing from the forward pass to the backward pass, which
// computes their forward pass again (Chen et al., arXiv 1604.06174, 2016): what
// they keep meanwhile is scratch, which all layers of a network share. The bits
// are those of the layers alone. Its variables are theirs.
class Recompute : public Layer {
 public:
  Recompute(std::string name, std::unique_ptr<Sequence> layers);

  bool reads_output() const override { return layers_->reads_output(); }
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  // Of the layers as they are: what to keep and what to compute again is the
  // compiler's to decide.
  HloValue Emit(const ProgramPass& pass) const override;
  uint64_t flops() const override;
  void AddCost(int depth, std::vector<LayerCost>* costs) const override;

 private:
  // Before the layers' own scratch.
  struct Laid {
    std::byte* kept = nullptr;
    Tensor output;  // Once more, for nobody, if Backward need not read it.
    uint64_t bytes = 0;
  };

  Laid Lay(uint64_t examples, DType dtype, std::byte* memory) const;

  const std::unique_ptr<Sequence> layers_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_RECOMPUTE_H_
