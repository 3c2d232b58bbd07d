#ifndef PARAMD_INPUT_COMBINED_SOURCE_H_
#define PARAMD_INPUT_COMBINED_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "input/example_source.h"
#include "input/pipeline.h"

namespace paramd {

// Several sources, each behind stages of its own, as one. The number of an
// example of the second source is behind those of the first, and so on.
using Parts = std::vector<std::unique_ptr<Pipeline>>;

// The examples of all parts, each part in its order; from which part the next
// one comes is drawn by weight, the same in every epoch (as tf.data's
// sample_from_datasets). INVALID_ARGUMENT if there are as many weights as parts
// not, or more examples than can be put in order. Empty weights: all are alike.
// REQUIRES: there is a part; all give examples that look alike.
absl::StatusOr<std::unique_ptr<ExampleSource>> MakeSampled(
    Parts parts, std::vector<double> weights, bool stop_on_empty,
    uint64_t seed);

// Example i of each part, side by side, as many as the shortest has. Its number
// is that in the first part. INVALID_ARGUMENT, naming it, if two parts have a
// feature of one name. REQUIRES: there is a part.
absl::StatusOr<std::unique_ptr<ExampleSource>> MakeZipped(Parts parts);

// What is drawn in part `number` of a source that has this seed depends on.
uint64_t SeedOfPart(uint64_t seed, uint64_t number);

}  // namespace paramd

#endif  // PARAMD_INPUT_COMBINED_SOURCE_H_
