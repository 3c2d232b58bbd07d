#include "cli/saved_model.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/verify.h"
#include "worker/evaluator/checkpoint_weights.h"
#include "worker/input/open_pipeline.h"

namespace paramd {
namespace {

constexpr uint64_t kBatch = 500;

}  // namespace

void SavedModelFlags::AddTo(Flags* flags) {
  flags->AddText("checkpoint", "PATH",
                 "the directory of a run, of which the newest is taken, or of a "
                 "checkpoint; must be given",
                 &checkpoint);
  job.AddTo(flags);
}

absl::StatusOr<SavedModel> OpenSavedModel(const SavedModelFlags& flags,
                                          const ModelFactory& models) {
  ASSIGN_OR_RETURN(const LoadedJob job, flags.job.Load());
  if (flags.checkpoint.empty()) {
    return absl::InvalidArgumentError(
        "--checkpoint PATH is missing: the directory of a run or a checkpoint");
  }
  SavedModel saved;
  ASSIGN_OR_RETURN(
      const auto training,
      OpenTrainingData(job.config.input(), job.config.seed()));
  ASSIGN_OR_RETURN(saved.model, models(job.config, training->spec()));
  ASSIGN_OR_RETURN(saved.data,
                   OpenTestData(job.config.input(), training->spec()));
  ASSIGN_OR_RETURN(const auto paths, CheckpointsAt(flags.checkpoint));
  saved.path = paths.front();
  ASSIGN_OR_RETURN(const v1::Manifest manifest, ReadManifest(saved.path));
  saved.step = manifest.global_step();
  ASSIGN_OR_RETURN(saved.weights,
                   ReadWeights(saved.path, saved.model->variables()));
  return saved;
}

absl::Status ForEachBatch(const Pipeline& data,
                          absl::FunctionRef<absl::Status(const Batch&)> use) {
  Batch batch;
  for (uint64_t begin = 0; begin < data.size(); begin += kBatch) {
    const uint64_t end = std::min(data.size(), begin + kBatch);
    RETURN_IF_ERROR(
        data.Read({.epoch = 1, .begin = begin, .end = end}, &batch));
    RETURN_IF_ERROR(use(batch));
  }
  return absl::OkStatus();
}

}  // namespace paramd
