#ifndef PARAMD_WORKER_STAGES_SENT_WEIGHTS_H_
#define PARAMD_WORKER_STAGES_SENT_WEIGHTS_H_

#include <vector>

#include "absl/types/span.h"

namespace paramd {

// What a stage of a model that evaluates was sent last: nobody changes weights
// between the batches of an evaluation.
//
// Not thread-safe.
class SentWeights {
 public:
  using Weights = absl::Span<const absl::Span<const float>>;

  // A mini-batch begins. Whether the stage has these weights already.
  bool Begin(Weights weights);
  // What came of it, of the same weights.
  void Begun(bool is_ok, Weights weights);
  // It is trained on: its weights are not kept, and change.
  void Train() { trains_ = true; }

 private:
  bool Are(Weights weights) const;

  bool trains_ = true;      // The mini-batch before, as far as is known.
  bool evaluates_ = false;  // This one.
  bool has_them_ = false;
  std::vector<std::vector<float>> sent_;  // By use.
};

}  // namespace paramd

#endif  // PARAMD_WORKER_STAGES_SENT_WEIGHTS_H_
