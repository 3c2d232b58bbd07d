#ifndef PARAMD_COMPUTE_MODEL_RESIDUAL_H_
#define PARAMD_COMPUTE_MODEL_RESIDUAL_H_

#include <memory>
#include <string>
#include <vector>

#include "compute/model/sequence.h"

namespace paramd {

// y = body(x) + shortcut(x). With a drop rate above 0 (stochastic depth, Huang
// et al., ECCV 2016), in training an example takes the shortcut alone with that
// probability; of the others the body is divided by 1 - rate. Its variables are
// those of the body, then those of the shortcut.
class Residual : public Layer {
 public:
  // No shortcut: the input as it is. REQUIRES: both give the same dims.
  Residual(std::string name, std::unique_ptr<Sequence> body,
           std::unique_ptr<Sequence> shortcut, double drop_rate);

  bool reads_output() const override { return false; }
  bool keeps_layers() const override { return true; }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  void Forward(const Pass& pass) const override;
  void Backward(const BackwardPass& pass) const override {
    BackwardOf(Part::kWhole, pass);
  }
  uint64_t DeferredBytes(uint64_t examples, DType dtype,
                         bool wanted) const override {
    return LayDeferred(examples, dtype, wanted, nullptr).bytes;
  }
  void BackwardInput(const BackwardPass& pass) const override {
    BackwardOf(Part::kInput, pass);
  }
  void BackwardVariables(const BackwardPass& pass) const override {
    BackwardOf(Part::kVariables, pass);
  }
  uint64_t flops() const override;
  void AddCost(int depth, std::vector<LayerCost>* costs) const override;

  const Sequence& body() const { return *body_; }
  const Sequence* shortcut() const { return shortcut_.get(); }  // Or null.
  double drop_rate() const { return drop_rate_; }

 private:
  struct Kept {
    Tensor body;  // The outputs, where a backward pass reads them.
    Tensor shortcut;
    Tensor factors;  // One per example; without a drop rate none.
    std::byte* of_body = nullptr;
    std::byte* of_shortcut = nullptr;
    uint64_t bytes = 0;
  };

  struct Deferred {
    Tensor scaled;  // The body's gradient; without a drop rate none.
    std::byte* of_body = nullptr;
    std::byte* of_shortcut = nullptr;
    uint64_t bytes = 0;
  };

  Kept Lay(uint64_t examples, DType dtype, std::byte* memory) const;
  Deferred LayDeferred(uint64_t examples, DType dtype, bool wanted,
                       std::byte* memory) const;
  void BackwardOf(Part part, const BackwardPass& pass) const;
  // What need not be kept, these passes write to the output and to the
  // beginning of scratch memory.
  Pass BodyPass(const Pass& pass, const Kept& kept) const;
  Pass ShortcutPass(const Pass& pass, const Kept& kept) const;

  const std::unique_ptr<Sequence> body_;
  const std::unique_ptr<Sequence> shortcut_;
  const double drop_rate_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_RESIDUAL_H_
