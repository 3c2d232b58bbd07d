#ifndef PARAMD_CLI_SAVED_MODEL_H_
#define PARAMD_CLI_SAVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "cli/flags.h"
#include "cli/job_flags.h"
#include "worker/input/pipeline.h"
#include "worker/model/trained_model.h"
#include "worker/model_factory.h"

namespace paramd {

// How a command line says which trained model is meant.
struct SavedModelFlags {
  JobFlags job;
  std::string checkpoint;

  // Declares --job, --checkpoint and a flag for each setting of the job.
  // `flags` must not outlive this.
  void AddTo(Flags* flags);
};

// A model with the weights of a checkpoint, and what the job evaluates on.
struct SavedModel {
  std::string path;   // Of the checkpoint.
  uint64_t step = 0;  // That it was taken at.
  std::unique_ptr<Pipeline> data;
  std::unique_ptr<TrainedModel> model;
  std::vector<std::vector<float>> weights;

  std::vector<absl::Span<const float>> spans() const {
    return {weights.begin(), weights.end()};
  }
};

// Of a run the newest checkpoint; none that is damaged. INVALID_ARGUMENT if a
// flag is missing or wrong; the errors of the job file, of the data, of the model
// and of the checkpoint.
absl::StatusOr<SavedModel> OpenSavedModel(const SavedModelFlags& flags,
                                          const ModelFactory& models);

// Calls `use` with all examples, in the order of the input, so many at a time.
// The first error.
absl::Status ForEachBatch(const Pipeline& data,
                          absl::FunctionRef<absl::Status(const Batch&)> use);

}  // namespace paramd

#endif  // PARAMD_CLI_SAVED_MODEL_H_
