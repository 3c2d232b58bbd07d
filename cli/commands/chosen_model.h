#ifndef PARAMD_CLI_COMMANDS_CHOSEN_MODEL_H_
#define PARAMD_CLI_COMMANDS_CHOSEN_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "compute/model/trained_model.h"
#include "input/pipeline.h"
#include "process/flags.h"
#include "process/job_flags.h"
#include "proto/paramd/v1/model.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "worker/evaluation.h"
#include "worker/model_factory.h"

namespace paramd {

// How a command line says which trained model is meant, on which part of the
// test set it is used, and by how many threads.
struct ChosenModelFlags {
  JobFlags job;
  std::string checkpoint;
  std::string live;
  std::string tls_dir;
  std::string shard;
  int timeout_ms = 60000;
  int threads = 1;

  // Declares a flag for each, and one for each setting of the job. `flags` must
  // not outlive this.
  void AddTo(Flags* flags);
};

// A model with the weights of a checkpoint or of a running job, and what it is
// used on.
struct ChosenModel {
  std::string from;  // Path of the checkpoint, or the address.
  bool live = false;
  // How many pushes its weights contain: of a checkpoint its step.
  uint64_t least_step = 0;
  uint64_t most_step = 0;
  // Of the checkpoint's manifest: which run's it is, and its number.
  std::string run_id;
  v1::SnapshotNumber snapshot;
  std::string job_digest;
  std::unique_ptr<Pipeline> data;
  bool is_trained_on = false;  // The data: the job has no others to test on.
  std::unique_ptr<TrainedModel> model;
  std::vector<std::vector<float>> weights;
  // Of keyed variables, in order: the keys that the data reads, whose rows
  // `weights` has.
  std::vector<std::vector<uint64_t>> keys;
  int threads = 1;
  TestPart part;

  // "step 9370"; "steps 9370 to 9372" of servers that went on meanwhile.
  std::string StepText() const;
  std::vector<absl::Span<const float>> spans() const {
    return {weights.begin(), weights.end()};
  }
  std::vector<absl::Span<const uint64_t>> rows() const {
    return {keys.begin(), keys.end()};
  }
};

// "2/4": the part 2, the third, of 4. INVALID_ARGUMENT if it is none.
absl::StatusOr<TestPart> ParseShard(absl::string_view text);

// INVALID_ARGUMENT, naming what differs, if a model of the job has just the
// variables of the checkpoint at `path` and computes something else from them
// than what they were trained for. One that has others, or a part of them, is
// meant to be another model; of what nobody has written down nothing is known.
// `input`: what the data give, which may call what layers read otherwise.
absl::Status CheckTrainedAs(const v1::ModelConfig& model,
                            const InputSpec& input,
                            absl::Span<const v1::Variable> variables,
                            const std::string& path,
                            const v1::Manifest& manifest);

// What is done with a model: on what the job evaluates on, which needs no
// labels to predict, or on what it trains on (OpenToLabel).
enum class ModelUse { kEvaluate, kPredict, kLabel };

// Of a run the newest checkpoint; none that is damaged. INVALID_ARGUMENT if a
// flag is missing or wrong, if the model has other variables than the running
// job, or computes something else than what the checkpoint was trained for
// (CheckTrainedAs), or if the numbers of the data mean another thing than those
// that it was trained on; the errors of the job file, of the data, of the
// model, of the checkpoint and of LiveWeights.
absl::StatusOr<ChosenModel> OpenChosenModel(const ChosenModelFlags& flags,
                                            const ModelFactory& models,
                                            ModelUse use);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_CHOSEN_MODEL_H_
