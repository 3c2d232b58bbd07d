#ifndef PARAMD_COMPUTE_MODEL_LAYER_BUILDER_H_
#define PARAMD_COMPUTE_MODEL_LAYER_BUILDER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "compute/model/parallel.h"
#include "compute/model/sequence.h"
#include "compute/model/simple_layers.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// Follows the dims of one example through the layers of a job file and makes
// them. A layer without a name of its own is called after its kind and how many
// of it there were: "dense_2". Not thread-safe.
class LayerBuilder {
 public:
  // In place of a bound: any integer of 64 bits.
  static constexpr uint64_t kAnyKey = ~uint64_t{0};

  // A feature that layers read.
  struct Input {
    std::string name;
    Dims dims;  // Of one example.
    // It is integers below this; 0: it is numbers.
    uint64_t bound = 0;
  };

  // What an embedding looks up of an example's integers: so many from `first`
  // on.
  struct Lookup {
    std::string table;  // The variable.
    size_t input = 0;   // Of the inputs.
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

  // The first layer reads the first of the inputs, or is refused by `first` if
  // that is not OK. REQUIRES: there is an input, and one of each name that a
  // branch of the layers has.
  LayerBuilder(std::vector<Input> inputs, absl::Status first,
               v1::ModelConfig::KernelInitializer kernels);

  // INVALID_ARGUMENT, naming the layer, what it gets and what it needs.
  absl::StatusOr<std::unique_ptr<Sequence>> Build(
      const google::protobuf::RepeatedPtrField<v1::Layer>& layers);

  // What the last layer gives, and its name.
  const Dims& dims() const { return dims_; }
  const std::string& last() const { return last_; }
  // Whether what comes out is still integers.
  bool integers() const { return read_.bound > 0; }
  const Needs& needs() const { return needs_; }
  // Whether a layer reads it.
  bool IsRead(size_t input) const { return is_read_[input]; }

 private:
  using Made = absl::StatusOr<std::unique_ptr<Layer>>;

  // Values of an example, of a layer's output or of a variable are fewer: BLAS
  // counts in 32 bits.
  static constexpr uint64_t kMaxSize = uint64_t{1} << 31;
  // Whether a product is below it.
  static bool Fits(const Dims& dims);

  Made Make(const v1::Layer& layer);
  Made MakeElementwise(const std::string& kind, Elementwise function);
  Made MakeDense(const v1::Layer::Dense& dense);
  Made MakeConv2d(const v1::Layer::Conv2d& conv);
  // REQUIRES: it pools.
  Made MakePooling(const v1::Layer& layer);
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
  absl::StatusOr<std::unique_ptr<Sequence>> BuildLayers(
      const v1::Layer::Branch& branch);
  // REQUIRES: what is read was set to what the parallel layer gets.
  absl::StatusOr<Parallel::Branch> BuildBranch(const v1::Layer::Branch& branch);
  Made MakeMixture(const v1::Layer::Mixture& mixture);
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

  // What the next layer reads.
  struct Read {
    absl::Status status = {};  // Why it is nothing.
    bool is_feature = true;
    size_t input = 0;    // Where it is a feature, or places of one.
    uint64_t bound = 0;  // As that of an input.
    uint64_t first = 0;  // Of integers, which of the input's is the first one.
  };

  // A layer is made that reads what is to be read next, if that is something.
  absl::Status Take();

  const std::vector<Input> inputs_;
  const v1::ModelConfig::KernelInitializer kernels_;
  std::vector<bool> is_read_;
  Dims dims_;
  Read read_;
  Needs needs_;
  int position_ = 0;
  // Whether sparse embeddings have a capacity; unset: there is none.
  absl::optional<bool> keyed_;
  std::string kind_;  // Of the layer that is being made.
  std::string last_;
  std::map<std::string, int> counts_;
};

// "28x28", or "a single value".
std::string DimsText(const Dims& dims);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_LAYER_BUILDER_H_
