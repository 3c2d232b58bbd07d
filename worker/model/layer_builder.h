#ifndef PARAMD_WORKER_MODEL_LAYER_BUILDER_H_
#define PARAMD_WORKER_MODEL_LAYER_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/model.pb.h"
#include "worker/model/sequence.h"
#include "worker/model/simple_layers.h"

namespace paramd {

// Follows the dims of one example through the layers of a job file and makes
// them. A layer without a name of its own is called after its kind and how many
// of it there were: "dense_2". Not thread-safe.
class LayerBuilder {
 public:
  // What an embedding looks up of an example's integers: so many from `first`
  // on.
  struct Lookup {
    std::string table;  // The variable.
    uint64_t first = 0;
    uint64_t count = 0;
    bool padding = false;  // -1 is none.
  };

  // What layers need beside their input.
  struct Needs {
    // Of each embedding, in the order in which they are called.
    std::vector<Lookup> lookups;
    bool draws = false;  // What is left out, in training.
  };

  // In place of a bound: any integer of 64 bits.
  static constexpr uint64_t kAnyKey = ~uint64_t{0};

  // `bound`: the input is integers below it; 0: it is numbers.
  LayerBuilder(Dims input, uint64_t bound);

  // INVALID_ARGUMENT, naming the layer, what it gets and what it needs.
  absl::StatusOr<std::unique_ptr<Sequence>> Build(
      const google::protobuf::RepeatedPtrField<v1::Layer>& layers);

  // What the last layer gives, and its name.
  const Dims& dims() const { return dims_; }
  const std::string& last() const { return last_; }
  // Whether what comes out is still integers.
  bool integers() const { return bound_ > 0; }
  const Needs& needs() const { return needs_; }

 private:
  using Made = absl::StatusOr<std::unique_ptr<Layer>>;

  Made Make(const v1::Layer& layer);
  Made MakeElementwise(const std::string& kind, Elementwise function);
  Made MakeDense(const v1::Layer::Dense& dense);
  Made MakeConv2d(const v1::Layer::Conv2d& conv);
  Made MakePool(const std::string& kind, Pooling::Kind pooling,
                const v1::Layer::Pool& pool);
  // Without `pooling`: a sum.
  Made MakeGlobalPool(const std::string& kind,
                      absl::optional<Pooling::Kind> pooling);
  Made MakeReshape(const v1::Layer::Reshape& reshape);
  Made MakeSelect(const v1::Layer::Select& select);
  Made MakeBagPool(const v1::Layer::BagPool& pool);
  Made MakeAttentionPool(const v1::Layer::AttentionPool& pool);
  Made MakeInteraction(const std::string& kind);
  Made MakeCross(const v1::Layer::Cross& cross);
  Made MakeParallel(const v1::Layer::Parallel& parallel);
  // Without layers, the input as it is.
  absl::StatusOr<std::unique_ptr<Sequence>> BuildBranch(
      const v1::Layer::Branch& branch);
  Made MakeResidual(const v1::Layer::Residual& residual);
  Made MakeRecompute(const v1::Layer::Recompute& recompute);
  Made MakeEmbedding(const v1::Layer::Embedding& embedding);
  // Whether settings and input of the last embedding fit each other.
  absl::Status CheckKeys(const v1::Layer::Embedding& embedding);
  absl::StatusOr<Embedding::Table> TableOf(
      const v1::Layer::Embedding& embedding);
  Made MakePositionalEmbedding(const v1::Layer::PositionalEmbedding& embedding);
  Made MakeAttention(const v1::Layer::Attention& attention);
  Made MakeNorm(const v1::Layer& layer);

  // `given`: a name from the job file, or empty.
  std::string NameOf(const std::string& kind, const std::string& given);
  // INVALID_ARGUMENT: "<kind> layer '<last>' needs <what>; it gets <dims>".
  absl::Status Wants(absl::string_view what, absl::string_view advice = "");
  absl::Status CheckNumbers(const std::string& kind);
  // Three dims, of which the last is 1 if the image has none.
  absl::StatusOr<Dims> Image();

  Dims dims_;
  uint64_t bound_;
  uint64_t first_ = 0;  // Of integers, which of the input's is the first one.
  Needs needs_;
  int position_ = 0;
  absl::optional<bool>
      sparse_;        // Whether embeddings are; unset: there is none.
  std::string kind_;  // Of the layer that is being made.
  std::string last_;
  std::map<std::string, int> counts_;
};

// "28x28", or "a single value".
std::string DimsText(const Dims& dims);

}  // namespace paramd

#endif  // PARAMD_WORKER_MODEL_LAYER_BUILDER_H_
