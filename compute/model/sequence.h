#ifndef PARAMD_COMPUTE_MODEL_SEQUENCE_H_
#define PARAMD_COMPUTE_MODEL_SEQUENCE_H_

#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

#include "compute/model/layer.h"

namespace paramd {

// Layers in a row. Its variables are theirs, from the first layer to the last.
class Sequence : public Layer {
 public:
  // Called with a variable of the sequence once its gradient is written.
  using Written = absl::FunctionRef<void(size_t variable)>;
  // Called with a variable of the sequence before a forward pass reads it.
  using Needed = absl::FunctionRef<void(size_t variable)>;

  // Shared by the sequences that Range makes.
  using Layers = std::vector<std::shared_ptr<const Layer>>;

  // REQUIRES: each layer takes what the one before it gives; there is one.
  Sequence(std::string name, const Layers& layers);
  Sequence(std::string name, std::vector<std::unique_ptr<Layer>> layers)
      : Sequence(std::move(name),
                 Layers(std::make_move_iterator(layers.begin()),
                        std::make_move_iterator(layers.end()))) {}

  // The layers [begin, end) as a sequence of their own, whose variables are
  // those from first_variable(begin) on: a stage of a pipeline. REQUIRES:
  // begin < end <= size().
  std::unique_ptr<Sequence> Range(size_t begin, size_t end) const;
  size_t size() const { return stages_.size(); }
  const Layer& layer(size_t i) const { return *stages_[i].layer; }
  const std::shared_ptr<const Layer>& shared_layer(size_t i) const {
    return stages_[i].layer;
  }
  size_t first_variable(size_t i) const { return stages_[i].first_variable; }

  bool reads_output() const override {
    return last_ >= 0 && stages_[last_].layer->reads_output();
  }
  uint64_t KeptBytes(uint64_t examples, DType dtype) const override;
  uint64_t ScratchBytes(uint64_t examples, DType dtype) const override;
  // What KeptBytes and ScratchBytes would be if each layer that contains layers
  // were in a Recompute of its own.
  struct Needs {
    uint64_t kept = 0;
    uint64_t scratch = 0;
  };
  Needs NeedsIfRecomputed(uint64_t examples, DType dtype) const;
  // Both stop after the layer they are at when the step is abandoned.
  void Forward(const Pass& pass) const override {
    ForwardWith(pass, [](size_t) {});
  }
  void ForwardWith(const Pass& pass, Needed needed) const;
  // Computes again what Forward keeps. May write the output, too.
  void KeepAgain(const Pass& pass) const;
  void Backward(const BackwardPass& pass) const override {
    BackwardWith(Part::kWhole, pass, [](size_t) {});
  }
  uint64_t DeferredBytes(uint64_t examples, DType dtype,
                         bool wanted) const override;
  void BackwardInput(const BackwardPass& pass) const override {
    BackwardWith(Part::kInput, pass, [](size_t) {});
  }
  void BackwardVariables(const BackwardPass& pass) const override {
    BackwardWith(Part::kVariables, pass, [](size_t) {});
  }
  void BackwardWith(Part part, const BackwardPass& pass, Written written) const;
  uint64_t flops() const override { return FlopsUntil(count()); }
  // Those of KeepAgain.
  uint64_t flops_again() const { return FlopsUntil(end_again()); }
  void AddCost(int depth, std::vector<LayerCost>* costs) const override;

 private:
  struct Stage {
    std::shared_ptr<const Layer> layer;
    size_t first_variable = 0;
  };

  // Runs the layers before this one.
  void ForwardUntil(int end, const Pass& pass, Needed needed) const;
  uint64_t FlopsUntil(int end) const;
  // Where KeepAgain stops: a last layer that keeps nothing need not be computed
  // again.
  int end_again() const;
  // Kept memory has for each layer its output and what it keeps, in order. The
  // last layer that is no view writes to the sequence's output.
  uint64_t OutputBytes(int stage, uint64_t examples, DType dtype) const;
  uint64_t StageBytes(int stage, uint64_t examples, DType dtype) const;
  uint64_t GradientBytes(uint64_t examples, DType dtype) const;
  // Deferred memory has for each layer with variables the gradient of its
  // output, and what it defers, in order. That of the sequence's output is the
  // caller's.
  bool DefersGradient(int stage) const {
    return stage != last_ && !stages_[stage].layer->variables().empty();
  }
  uint64_t StageDeferredBytes(int stage, uint64_t examples, DType dtype,
                              bool wanted) const;
  // The nearest layer before this one that is no view, or -1.
  int Before(int stage) const;
  int count() const { return static_cast<int>(stages_.size()); }
  // The pass of a layer whose memory begins at `kept`.
  Pass Enter(int stage, const Pass& pass, std::byte* kept) const;

  std::vector<Stage> stages_;
  // The last layer that is no view; -1 if all are.
  int last_ = -1;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_SEQUENCE_H_
