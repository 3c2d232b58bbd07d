#ifndef PARAMD_INPUT_OPEN_PIPELINE_H_
#define PARAMD_INPUT_OPEN_PIPELINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "input/pipeline.h"
#include "input/prefetcher.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/input.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Opens what `config` names to train on, or, if it follows that, nothing yet
// (see GrowingSource); the order of examples and what is random follow from
// `seed`. File names are relative to the directory beside them unless they
// begin with '/'. INVALID_ARGUMENT if the input names nothing or a stage does
// not suit; else the errors of the format. `batch`: examples of a whole batch,
// for the stage that drops the remainder; 0: nobody said.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenTrainingData(
    const v1::InputConfig& config, uint64_t seed, uint64_t batch = 0);
// The same of a job whose defaults are filled in.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenTrainingData(
    const v1::JobConfig& job);

// What `config` names to train on, as a trained model is to label it, in the
// order in which a stage `relabel` there gets it: behind the stages that stand
// before that one, or without one before the first that mixes or repeats
// examples or makes batches; all maps, and batches, are as in an evaluation.
// INVALID_ARGUMENT if the examples are not the same in each epoch; else as
// OpenTrainingData, but no file of labels is read.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenToLabel(
    const v1::InputConfig& config, uint64_t seed);

// Opens what `config` names to evaluate on, beside the data that it names to
// train on. What has names is read by name, in the order of training: columns
// of csv, its class_names, image folders. Errors as above, and
// INVALID_ARGUMENT, naming the difference, if examples do not look like those
// of training or their numbers mean another thing. Features called as in
// `unread`, of which nobody will make use, may be missing; those that are only
// labels are not read.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenTestData(
    const v1::InputConfig& config, const Pipeline& training,
    absl::Span<const std::string> unread = {});

// INVALID_ARGUMENT, naming the difference, if numbers of `data` mean another
// thing than those of what checkpoint `path` was trained on. OK if that is not
// known, of a checkpoint of an earlier version. `called`: the data, in the
// sentence.
absl::Status CheckMeaning(const Pipeline& data, const std::string& path,
                          const v1::DataSet& trained,
                          absl::Span<const std::string> unread = {},
                          absl::string_view called = "the test data");

// Where the training data lie: what DataSet.directory says of them.
std::string TrainingDirectory(const v1::InputConfig& config);

// What `config` says about making batches ahead; threads found by auto are at
// most 64, and 16 for each processor of this process.
Prefetcher::Options PrefetchOptions(const v1::InputConfig& config,
                                    uint64_t batch_size);

}  // namespace paramd

#endif  // PARAMD_INPUT_OPEN_PIPELINE_H_
