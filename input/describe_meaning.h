#ifndef PARAMD_INPUT_DESCRIBE_MEANING_H_
#define PARAMD_INPUT_DESCRIBE_MEANING_H_

#include <string>

#include "absl/strings/string_view.h"

#include "input/example_source.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// All that gives the numbers of `source` and of the stages behind it their
// meaning: every key of the job file that is about them, with the names that
// the files have in place of those that it left out. A key or a stage that is
// new is part of it until it is told to be harmless (IsHarmless). `spec`: what
// the stages give.
v1::DataMeaning DescribeMeaning(const v1::InputConfig& config, bool training,
                                const ExampleSource& source,
                                const InputSpec& spec);

// Whether train and test may have different values of a key, "csv.files" or
// "npy.arrays.file", and a number still means the same: by itself, or because
// OpenTestData reads by name.
bool IsHarmless(absl::string_view key);

// Whether a stage, "crop", may take part in one of the two alone, or otherwise:
// it says which examples there are and in which order, or where in an image
// things lie and how they are disturbed, and not what a number means.
bool IsHarmlessStage(absl::string_view stage);

// Whether the stage takes part in training, in evaluation.
bool IsOn(const v1::InputStage& stage, bool training);

// The feature that a map reads; empty: the stage is none.
std::string FeatureOf(const v1::InputStage& stage);

}  // namespace paramd

#endif  // PARAMD_INPUT_DESCRIBE_MEANING_H_
