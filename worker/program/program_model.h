#ifndef PARAMD_WORKER_PROGRAM_PROGRAM_MODEL_H_
#define PARAMD_WORKER_PROGRAM_PROGRAM_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/types.pb.h"
#include "worker/input/batch.h"
#include "worker/model/trained_model.h"
#include "worker/program/program_exchange.h"

namespace paramd {

// A model that the program computes. Its examples are numbers, of a feature
// "index"; what they stand for the program knows.
//
// Not thread-safe, as every model; its clones hand over to the same program.
class ProgramModel : public TrainedModel {
 public:
  struct Options {
    std::vector<v1::Variable> variables;
    // By variable, what it begins with; all empty: as its initializer says.
    std::vector<std::vector<float>> initial_values;
    // Whether the program evaluates; if not, nothing ever is.
    bool evaluates = false;
  };

  // INVALID_ARGUMENT, naming the variable: two of one name, one without a name
  // or elements, or initial values of another number. Both outlive the model.
  static absl::Status Check(const Options& options);
  ProgramModel(const Options* options, ProgramExchange* exchange)
      : options_(*options), exchange_(*exchange) {}

  const std::vector<v1::Variable>& variables() const override {
    return options_.variables;
  }
  std::unique_ptr<TrainedModel> Clone() const override;
  absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override;
  absl::StatusOr<Metrics> Evaluate(WeightSpans weights,
                                   const Batch& batch) override;
  // UNIMPLEMENTED: the program predicts by itself.
  absl::Status Predict(WeightSpans weights, const Batch& batch,
                       Batch* out) override;
  ModelCost cost() const override;
  void Announce(const Batch& batch) override;
  const std::vector<std::vector<float>>* initial_values() const override;
  bool evaluates() const override { return options_.evaluates; }
  // If the program counts labels, which it says with its first result.
  std::vector<std::string> metrics() const override { return {"accuracy"}; }

 private:
  absl::StatusOr<Metrics> Compute(const ProgramWork& work);

  const Options& options_;
  ProgramExchange& exchange_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_PROGRAM_PROGRAM_MODEL_H_
