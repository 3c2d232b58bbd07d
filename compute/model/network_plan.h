#ifndef PARAMD_COMPUTE_MODEL_NETWORK_PLAN_H_
#define PARAMD_COMPUTE_MODEL_NETWORK_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "compute/model/loss.h"
#include "compute/model/sequence.h"
#include "compute/model/task.h"
#include "input/batch.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// What each of a network's tasks is compared with, in their order.
using Targets = absl::InlinedVector<Loss::Target, 1>;

// A network that fits its input.
struct NetworkPlan {
  // A feature that layers read.
  struct Input {
    FeatureSpec feature;
    // Integers are below this, which all embeddings that look them up have rows
    // for; 0: it has none but keys.
    uint64_t bound = 0;
    uint64_t looked_up = 0;  // Of an example, altogether; 0: it is numbers.
  };
  // That of the first layer, if it reads one, and those of branches, each once.
  std::vector<Input> inputs;
  std::unique_ptr<Sequence> layers;
  // One, or those of the outputs that the job names, whose layers are branches
  // of the last layer.
  std::vector<Task> tasks;
  // By whose values evaluations are sliced, by name.
  std::vector<FeatureSpec> slices;
  // What a prediction's outputs are divided by.
  double temperature = 1;
  // Those of the layers, a shared one once, where it is used first.
  std::vector<v1::Variable> variables;
  // For each variable of `layers`, which of `variables` it is.
  std::vector<size_t> shared;
  // Layers draw what they leave out, in training.
  bool draws = false;
  // Some branch names the feature that it reads.
  bool branches_read = false;
  // See ModelCost.
  std::vector<ChosenRecompute> chosen;
  uint64_t saved_bytes = 0;
  // Where layers that are swapped keep what they keep; empty: none is.
  std::string swap_directory;

  // What an embedding looks up of an example's integers: `count` from `first`
  // on, in one of the variables.
  struct Lookup {
    size_t input = 0;  // Of the inputs.
    uint64_t first = 0;
    uint64_t count = 0;
    bool padding = false;  // -1 is no row, and stays.
    size_t table = 0;

    // Of the same integers.
    bool IsOfSame(const Lookup& other) const {
      return input == other.input && first == other.first &&
             count == other.count && padding == other.padding;
    }
  };
  // Of each embedding, in order.
  std::vector<Lookup> lookups;
  // What the layers get of an input of integers: of all examples those of its
  // first lookup, then those of the next. Where one begins, after so many for
  // each example; ascending in an input where it is a new one, for equal ones
  // are the same.
  std::vector<uint64_t> starts;
  // For each variable, how many sparse ones there are before it.
  std::vector<size_t> sparse_before;

  // Whether there is one loss, over all outputs.
  bool IsOfOneTask() const {
    return tasks.size() == 1 && tasks.front().name.empty();
  }
  // Whether an evaluation needs outputs in host memory: a metric is of them, or
  // it is sliced.
  bool NeedsScores() const;
  // See TrainedModel::metrics.
  std::vector<std::string> metrics() const;
  // What losses and metrics read of a batch, but not slices; each once.
  std::vector<std::string> Measured() const;
  // Of the examples, those of which some task has a label that counts.
  uint64_t CountedExamples(absl::Span<const Loss::Target> targets) const;
  // What each task found, in their order, as that of the network.
  Metrics Together(std::vector<Metrics> of_tasks,
                   absl::Span<const Loss::Target> targets) const;

  // Whether the layers get the input as it is in the batch, and all of them.
  bool TakesAsItIs(size_t input) const;
  bool TakesAllAsTheyAre() const;
  // Of one example, what the layers get.
  uint64_t InputBytes(size_t input) const;
  // Of all layers, for one example.
  ModelCost cost() const;
  // Whether an earlier, a later layer has the variable of this place of
  // `shared` too.
  bool IsUsedBefore(size_t use) const;
  bool IsUsedBehind(size_t use) const;
};

// The features that a model's layers name, each once: whatever else they are,
// they are read.
std::vector<std::string> FeaturesNamedBy(const v1::ModelConfig& config);

// INVALID_ARGUMENT, a sentence that names the layer, what it gets and what it
// needs, if the input has not the features that are asked for, or others where
// branches name theirs, if a branch reads a label, if there is no layer or no
// loss, if shapes do not fit, if an output does not fit its loss and its label,
// if a metric is not one of its loss, if slices are as FindSlices refuses them,
// if two outputs have one name, if layers of one name have variables of
// different shapes, or if a variable, or a layer's output of one example, had
// 2^31 values or more.
absl::StatusOr<std::unique_ptr<NetworkPlan>> PlanNetwork(
    const v1::ModelConfig& config, const InputSpec& input);

// The features that evaluations are sliced by and no layer reads, as neither
// `input` nor a branch of the model names them, nor of the `other` model.
std::vector<std::string> OnlySlicedBy(const v1::ModelConfig& config,
                                      const v1::ModelConfig* other = nullptr);

// INVALID_ARGUMENT, naming the number of rows that is needed, if test data have
// integers that an embedding has no row for. Classes that were found in files
// are the least power of two above the largest integer, which is half of them
// at least.
absl::Status CheckTestData(const NetworkPlan& plan, const InputSpec& test);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_MODEL_NETWORK_PLAN_H_
