#ifndef PARAMD_INPUT_CONVERT_INPUT_H_
#define PARAMD_INPUT_CONVERT_INPUT_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "input/batch.h"
#include "input/pipeline.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// Converting an input writes its examples, as they are after some of its
// stages, as records of one size. A job reads these through the remaining
// stages and gets the same bits.

// How many leading stages an example has passed when it is written.
struct PassedStages {
  int train = 0;   // Of the stages of input.train itself,
  int test = 0;    // of those of input.test,
  int shared = 0;  // and of input.stages, if all of both are passed.
};

// Those before the first that shuffles, repeats, makes batches or windows, or
// takes part in training or evaluation alone. None if a later one draws random
// numbers, since these follow from its place in the list. Of stages that train
// and test must share, as `log`, both pass the same.
PassedStages StagesToPass(const v1::InputConfig& config);

// Whether a stage that is left asks where files begin.
bool GoesByFiles(const v1::InputConfig& config, const PassedStages& passed);

// INVALID_ARGUMENT, in a sentence, if `config` has no examples that are all
// there before a job begins.
absl::Status CheckConvertible(const v1::InputConfig& config);

// INVALID_ARGUMENT, naming why, if the source has other examples, or another
// order, in each epoch.
absl::Status CheckSameInEachEpoch(const Pipeline& pipeline);

// Features of `spec` as a record has them, in their order; without files.
// `training`: what examples to train on look like, whose classes a test set has
// too. INVALID_ARGUMENT, naming the feature, if its size differs from example
// to example, it has more classes than in training, or there are too many of
// them for a job file.
absl::StatusOr<v1::InputSource::Records> DescribeRecords(
    const InputSpec& spec, const InputSpec& training);

// Bytes of an example of a spec without open dimensions.
uint64_t RecordBytes(const InputSpec& spec);

// What becomes records, each with its files; in `directory`.
struct ConvertedSources {
  std::string directory;
  v1::InputSource::Records train = {};
  // None: the job evaluates on what it is trained on.
  absl::optional<v1::InputSource::Records> test = {};
};

// The input that reads the records as `config` reads what they are made of.
v1::InputConfig InputOfRecords(const v1::InputConfig& config,
                               const PassedStages& passed,
                               const ConvertedSources& converted);

// INVALID_ARGUMENT, in a sentence, if a job would find the test data of `input`
// read differently from those to train on. `input`: as InputOfRecords gave it
// for these two. REQUIRES: it has test data.
absl::Status CheckReadAlike(const v1::InputConfig& input, const Pipeline& train,
                            const Pipeline& test);

// How examples are written: those of `pipeline`, behind so many of its stages.
struct ExampleEncoding {
  const Pipeline& pipeline;
  int passed = 0;
  uint32_t threads = 1;
};

// Calls `use`, in order and on this thread, with records of some examples at a
// time until all of [begin, end) of an epoch's examples have been read, and
// with how many these were: more than records, if some can't be read, or don't
// have the shape of a record, and the input skips such. The error of the first
// of these, or of `use`.
// REQUIRES: DescribeRecords admits them; threads > 0.
absl::Status EncodeExamples(const ExampleEncoding& encoding, uint64_t begin,
                            uint64_t end,
                            absl::FunctionRef<absl::Status(
                                absl::string_view records, uint64_t examples)>
                                use);

}  // namespace paramd

#endif  // PARAMD_INPUT_CONVERT_INPUT_H_
