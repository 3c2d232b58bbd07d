#include "compute/model/teachers.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

absl::Status Of(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("teacher '", name, "': ", status.message()));
}

}  // namespace

std::unique_ptr<Teachers> Teachers::CloneForReplica(uint32_t replica) const {
  std::vector<Teacher> clones = teachers_;
  for (Teacher& teacher : clones) {
    if (teacher.model == nullptr) continue;
    ReplicatedModel* const replicated = teacher.model->replicated();
    teacher.model = replicated == nullptr
                        ? teacher.model->Clone()
                        : replicated->CloneForReplica(replica);
  }
  return std::make_unique<Teachers>(std::move(clones), temperature_, alpha_);
}

absl::StatusOr<ConstTensor> Teachers::Ask(const Teacher& teacher,
                                          const Batch& batch) {
  const std::vector<absl::Span<const float>> weights(teacher.weights->begin(),
                                                     teacher.weights->end());
  const absl::Status status =
      teacher.model->Predict(weights, batch, &predicted_);
  if (!status.ok()) return Of(teacher.name, status);
  return ConstTensor(predicted_.columns.front().tensor());
}

absl::Status Teachers::AddTo(const Batch& batch, Loss::Target* target) {
  Dims dims;
  mean_.clear();
  size_t known = 0;  // Of Batch::taught.
  for (const Teacher& teacher : teachers_) {
    ConstTensor said;
    if (teacher.model == nullptr) {
      CHECK(known < batch.taught.size(), "a batch has what its teachers say");
      said = batch.taught[known++].tensor();
    } else {
      ASSIGN_OR_RETURN(said, Ask(teacher, batch));
    }
    const absl::Span<const float> values = said.values<float>();
    dims = said.dims;
    mean_.resize(values.size(), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) {
        return Of(teacher.name,
                  absl::InvalidArgumentError(absl::StrCat(
                      batch.Where(i / (values.size() / batch.size())),
                      ": what it says is not finite")));
      }
      mean_[i] += values[i];
    }
  }
  const auto count = static_cast<float>(teachers_.size());
  for (float& value : mean_) value /= count;
  target->soft = ConstTensor(mean_.data(), DType::kFloat32, dims);
  target->temperature = temperature_;
  target->alpha = alpha_;
  return absl::OkStatus();
}

}  // namespace paramd
