#include "input/testing/random_batch.h"

#include "base/random.h"

namespace paramd {

Batch RandomBatch(const InputSpec& input, const Portion& range, uint64_t seed) {
  RandomStream random(seed);
  Batch batch;
  batch.Reset(input, range.size());
  batch.range = range;
  for (Column& column : batch.columns) {
    if (column.spec().dtype == DType::kFloat32) {
      for (float& value : column.values<float>()) value = random.Uniform();
      continue;
    }
    for (int32_t& value : column.values<int32_t>()) {
      value = static_cast<int32_t>(random.Below(column.spec().classes));
    }
  }
  return batch;
}

}  // namespace paramd
