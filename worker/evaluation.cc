#include "worker/evaluation.h"

#include <algorithm>

#include "absl/types/optional.h"

#include "base/status_macros.h"
#include "worker/input/batch_assembler.h"

namespace paramd {
namespace {

constexpr uint64_t kBatch = 500;

}  // namespace

absl::StatusOr<BatchResult> EvaluateOn(const Dataset& data, WeightSpans weights,
                                       Model* model) {
  BatchAssembler assembler(data, absl::nullopt);
  Batch batch;
  BatchResult sum;
  for (uint64_t begin = 0; begin < data.size(); begin += kBatch) {
    const uint64_t end = std::min(data.size(), begin + kBatch);
    RETURN_IF_ERROR(
        assembler.Assemble({.epoch = 1, .begin = begin, .end = end}, &batch));
    sum += model->Evaluate(weights, batch);
  }
  return sum;
}

}  // namespace paramd
