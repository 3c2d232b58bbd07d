#ifndef PARAMD_COMPUTE_PROGRAM_PROGRAM_MODEL_H_
#define PARAMD_COMPUTE_PROGRAM_PROGRAM_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "compute/model/trained_model.h"
#include "compute/program/program_exchange.h"
#include "input/batch.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// A model that the program computes. Its examples are numbers, of a feature
// "index"; what they stand for the program knows.
//
// Not thread-safe, as every model; its clones hand over to the same program.
class ProgramModel : public TrainedModel, public BroughtModel {
 public:
  struct Options {
    std::vector<v1::Variable> variables;
    // By variable, what it begins with; all empty: as its initializer says.
    std::vector<std::vector<float>> initial_values;
    // Where weights lie: empty, or for each variable. Not those of sparse ones.
    LentWeights lent_weights;
    // Whether the program evaluates; if not, nothing ever is.
    bool evaluates = false;
  };

  // INVALID_ARGUMENT, naming the variable: two of one name, one without a name
  // or elements, a sparse one whose rows do not fit blocks, lent weights that
  // overlap, or initial values of another number. Both outlive the model.
  static absl::Status Check(const Options& options);
  ProgramModel(const Options* options, ProgramExchange* exchange)
      : options_(*options), exchange_(*exchange) {}

  const std::vector<v1::Variable>& variables() const override {
    return options_.variables;
  }
  std::unique_ptr<TrainedModel> Clone() const override;
  BroughtModel* brought() override { return this; }
  absl::StatusOr<Metrics> Step(WeightSpans weights, const Batch& batch,
                               const StepOptions& options,
                               GradientSpans gradients, Ready ready) override;
  // The program says which.
  absl::Status FindRows(const Batch& batch,
                        absl::Span<std::vector<uint64_t>> rows) const override;
  absl::Status FindTestRows(
      const Batch& batch,
      absl::Span<std::vector<uint64_t>> rows) const override;
  absl::StatusOr<Metrics> Evaluate(WeightSpans weights,
                                   const Batch& batch) override;
  absl::StatusOr<Metrics> EvaluateRows(WeightSpans weights, const Batch& batch,
                                       RowNumbers rows) override;
  // UNIMPLEMENTED: the program predicts by itself.
  absl::Status Predict(WeightSpans weights, const Batch& batch,
                       Batch* out) override;
  ModelCost cost() const override;
  void Announce(const Batch& batch) override;
  void JobEnded(const std::vector<v1::EpochTraining>& epochs) override {
    exchange_.SetTraining(epochs);
  }
  const std::vector<std::vector<float>>* initial_values() const override;
  LentWeights lent_weights() const override { return options_.lent_weights; }
  bool evaluates() const override { return options_.evaluates; }
  // If the program counts labels, which it says with its first result.
  std::vector<std::string> metrics() const override { return {"accuracy"}; }

 private:
  absl::StatusOr<Metrics> Compute(const ProgramWork& work);
  absl::Status Find(ProgramWork::Kind kind, const Batch& batch,
                    absl::Span<std::vector<uint64_t>> rows) const;

  const Options& options_;
  ProgramExchange& exchange_;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_PROGRAM_PROGRAM_MODEL_H_
