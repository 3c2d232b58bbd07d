#ifndef PARAMD_INPUT_TESTING_RANDOM_BATCH_H_
#define PARAMD_INPUT_TESTING_RANDOM_BATCH_H_

#include <cstdint>

#include "input/batch.h"

namespace paramd {

// Numbers from 0 to 1, and int32 below each feature's classes, that follow from
// the seed. REQUIRES: the features are float32 and int32.
Batch RandomBatch(const InputSpec& input, const Portion& range, uint64_t seed);

}  // namespace paramd

#endif  // PARAMD_INPUT_TESTING_RANDOM_BATCH_H_
