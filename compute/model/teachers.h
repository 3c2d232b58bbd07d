#ifndef PARAMD_COMPUTE_MODEL_TEACHERS_H_
#define PARAMD_COMPUTE_MODEL_TEACHERS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "compute/model/loss.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "tensor/tensor.h"

namespace paramd {

// Models that are trained already, and what a student learns of them: the mean
// of their probabilities, which are those of their outputs divided by a
// temperature. They compute as in an evaluation: nothing is dropped, running
// statistics count, and what they say of an example is the same in each epoch.
// What one says may also be known before: then the batch has it.
//
// Not thread-safe: of the student's thread. Clones share the weights.
class Teachers {
 public:
  struct Teacher {
    std::string name;  // For sentences: where it was read.
    // Predicts probabilities at the temperature. Null: they are in
    // Batch::taught, those of the first such teacher first.
    std::shared_ptr<TrainedModel> model = nullptr;
    std::shared_ptr<const std::vector<std::vector<float>>> weights = nullptr;
  };

  // REQUIRES: there is one at least, and their predictions have one shape;
  // temperature > 0; alpha from 0 to 1 (see Loss::Target).
  Teachers(std::vector<Teacher> teachers, double temperature, double alpha)
      : teachers_(std::move(teachers)),
        temperature_(temperature),
        alpha_(alpha) {}

  // Others for replica `replica` of the process, or another thread.
  std::unique_ptr<Teachers> CloneForReplica(uint32_t replica) const;

  // Adds what they say to what a student's outputs for the batch are compared
  // with, valid until the next call. The errors of TrainedModel::Predict, and
  // INVALID_ARGUMENT if what one says is no number, which name the teacher.
  // REQUIRES: the batch has examples, and what teachers without a model say.
  absl::Status AddTo(const Batch& batch, Loss::Target* target);

 private:
  absl::StatusOr<ConstTensor> Ask(const Teacher& teacher, const Batch& batch);

  std::vector<Teacher> teachers_;
  const double temperature_;
  const double alpha_;
  Batch predicted_;
  std::vector<float> mean_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_TEACHERS_H_
