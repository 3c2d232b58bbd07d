#ifndef PARAMD_WORKER_MODEL_PARALLEL_H_
#define PARAMD_WORKER_MODEL_PARALLEL_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/model/sequence.h"

namespace paramd {

// Branches on the same input. Their outputs are added, or put one after the
// other, each as one dimension. Its variables are those of the branches, from
// the first to the last.
class Parallel : public Layer {
 public:
  // REQUIRES: there is a branch, all take the same, and with `sum` all give the
  // same dims.
  Parallel(std::string name, std::vector<std::unique_ptr<Sequence>> branches,
           bool sum);

  bool reads_output() const override { return false; }
  bool keeps_layers() const override { return true; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override;
  HloValue Emit(const ProgramPass& pass) const override;
  uint64_t flops() const override;
  void AddCost(int depth, std::vector<LayerCost>* costs) const override;

 private:
  struct Branch {
    std::unique_ptr<Sequence> layers;
    size_t first_variable = 0;
    uint64_t first_column = 0;  // Of the output.
  };

  // The pass of a branch, whose memory is taken from `kept`.
  Pass Enter(const Branch& branch, const Pass& pass, Arena* kept) const;

  std::vector<Branch> branches_;
  const bool sum_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_PARALLEL_H_
