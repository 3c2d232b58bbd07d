#ifndef PARAMD_COMPUTE_MODEL_NESTED_LAYERS_H_
#define PARAMD_COMPUTE_MODEL_NESTED_LAYERS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"

#include "compute/model/layer.h"
#include "compute/model/sequence.h"

namespace paramd {

// The rows of layers that a layer holds, in the order of its variables, which
// are theirs; of a Sequence, itself. None: it is of no kind that holds layers.
std::vector<const Sequence*> HeldBy(const Layer& layer);

// What stands for the layers of a sequence from one of them to `end`, which is
// the first that it does not stand for. REQUIRES: it takes what the first of
// them takes, and gives what the last of them gives.
struct Replacement {
  std::shared_ptr<const Layer> layer;  // Null: that one layer stays.
  size_t end = 0;
};

// The same layers in the same order, at every depth with what `replace` gives
// in place of those of `sequence` from `layer` on. A layer that stays holds
// what becomes of the layers that it holds. Variables are those of the layers
// that result.
std::unique_ptr<Sequence> Rebuild(
    const Sequence& layers,
    absl::FunctionRef<Replacement(const Sequence& sequence, size_t layer)>
        replace);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_NESTED_LAYERS_H_
