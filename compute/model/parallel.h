#ifndef PARAMD_COMPUTE_MODEL_PARALLEL_H_
#define PARAMD_COMPUTE_MODEL_PARALLEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "compute/model/sequence.h"

namespace paramd {

// Branches on the same input, or on features of their own (Context::inputs).
// Their outputs are added, or put one after the other, each as one dimension.
// Its variables are those of the branches, from the first to the last.
class Parallel : public Layer {
 public:
  struct Branch {
    std::unique_ptr<Sequence> layers;
    absl::optional<size_t> feature = {};  // Unset: the layer's input.
  };

  // `input`: of the layer. REQUIRES: there is a branch, those without a feature
  // take the input, and with `sum` all give the same dims.
  Parallel(std::string name, Dims input, std::vector<Branch> branches,
           bool sum);

  size_t branches() const { return branches_.size(); }
  const Sequence& branch_layers(size_t branch) const {
    return *branches_[branch].layers;
  }
  // Of the layer's variables the branch's first one.
  size_t first_variable(size_t branch) const {
    return branches_[branch].first_variable;
  }
  // Which of the inputs it reads; unset: what the layer gets.
  absl::optional<size_t> feature(size_t branch) const {
    return branches_[branch].feature;
  }
  bool adds() const { return sum_; }
  // Else what comes before it has no use.
  bool reads_input() const;

  bool reads_output() const override { return false; }
  bool keeps_layers() const override { return true; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override {
    BackwardOf(Part::kWhole, pass);
  }
  uint64_t DeferredBytes(uint64_t examples, DType dtype,
                         bool wanted) const override;
  void BackwardInput(const BackwardPass& pass) const override {
    BackwardOf(Part::kInput, pass);
  }
  void BackwardVariables(const BackwardPass& pass) const override {
    BackwardOf(Part::kVariables, pass);
  }
  uint64_t flops() const override;
  void AddCost(int depth, std::vector<LayerCost>* costs) const override;

 private:
  struct Placed : Branch {
    size_t first_variable = 0;
    uint64_t first_column = 0;  // Of the output.
  };

  // The pass of a branch, whose memory is taken from `kept`.
  Pass Enter(const Placed& branch, const Pass& pass, Arena* kept) const;
  // Of the branch's layers.
  uint64_t BranchDeferredBytes(const Placed& branch, uint64_t examples,
                               DType dtype, bool wanted) const;
  void BackwardOf(Part part, const BackwardPass& pass) const;

  std::vector<Placed> branches_;
  const bool sum_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_PARALLEL_H_
