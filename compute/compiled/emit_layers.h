#ifndef PARAMD_COMPUTE_COMPILED_EMIT_LAYERS_H_
#define PARAMD_COMPUTE_COMPILED_EMIT_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "compute/hlo/hlo_graph.h"
#include "compute/model/layer.h"

namespace paramd {

// What is the same for all layers of one program; values mean what they do in
// Layer::Context.
struct Emission {
  // The random numbers of a layer come from a key that follows from the step.
  struct Draw {
    std::string layer;
    HloValue key;  // u64, a scalar, a parameter.
  };

  HloGraph* graph = nullptr;
  bool training = false;
  HloValue share = {};    // A scalar; in training.
  HloValue offsets = {};  // u64, one per example; in training.
  // What layers read of each feature; of integers what embeddings look up.
  std::vector<HloValue> inputs = {};
  // For each embedding, in order, which of the inputs it looks up (s32), and
  // where its part begins.
  std::vector<HloValue> integers = {};
  absl::Span<const uint64_t> starts = {};
  std::vector<Draw> draws = {};
};

// What a layer is written with.
struct ProgramPass {
  Emission* emission = nullptr;
  absl::Span<const HloValue> weights = {};
  // In training, for an untrained variable (a running statistic): what is to
  // be subtracted from it.
  absl::Span<HloValue> updates = {};
  // Zeros where the layer is an embedding, which reads the integers instead.
  HloValue input = {};
};

// Adds a layer's forward pass to a program; returns the output, [examples,
// output dims]. INVALID_ARGUMENT, naming the layer and what can be done, if it
// has no form in a program.
absl::StatusOr<HloValue> EmitLayer(const Layer& layer, const ProgramPass& pass);

// The kinds of layers that hold no others, in a file each: nullopt if it is
// none of them.
absl::optional<HloValue> EmitPlainLayer(const Layer& layer,
                                        const ProgramPass& pass);
absl::optional<HloValue> EmitImageLayer(const Layer& layer,
                                        const ProgramPass& pass);
absl::optional<HloValue> EmitNormLayer(const Layer& layer,
                                       const ProgramPass& pass);
absl::optional<HloValue> EmitPlaceLayer(const Layer& layer,
                                        const ProgramPass& pass);

// The factors of DrawFactors (compute/model/drops.h) as part of a program,
// `width` for each example.
HloValue EmitFactors(Emission* emission, const std::string& layer, double rate,
                     uint64_t width);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_COMPILED_EMIT_LAYERS_H_
