#ifndef PARAMD_SERVER_CORE_OPTIMIZER_H_
#define PARAMD_SERVER_CORE_OPTIMIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "config/optimizer_names.h"
#include "config/optimizer_slots.h"
#include "proto/paramd/v1/optimizer.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/core/optimizer_kernels.h"
#include "server/core/optimizers/pruning.h"
#include "server/core/optimizers/rule.h"
#include "server/core/optimizers/schedule.h"
#include "tensor/buffer.h"
#include "tensor/keyed_rows.h"
#include "tensor/number_reader.h"

namespace paramd {

// How one variable is trained, as name patterns say.
struct VariableOptions {
  // False: a gradient is subtracted as it is, and there are no slots.
  bool trained = true;
  // Whether weight decay, if there is any, is for it.
  bool decays = true;
  // Times the learning rate.
  double rate_factor = 1;
  // Of optimizer.groups; nothing: the constants are those of most.
  absl::optional<int> group = absl::nullopt;
  // Of optimizer.pruning; nothing: no weight becomes zero.
  absl::optional<int> pruning = absl::nullopt;
  // As ChannelLeads has it, where the layout is known.
  absl::optional<uint32_t> channel_lead = absl::nullopt;
  // The last two dimensions.
  uint64_t inputs = 1;
  uint64_t outputs = 1;
  // A gradient is of some rows.
  bool sparse = false;
  // Whose keys it names.
  bool keyed = false;
  bool sketched = false;  // See SlotOwner.

  // Gradients of a block are alike in size: what is far above is a spike.
  // Statistics settle, and rows differ.
  bool has_usual_size() const { return trained && !sparse; }
};

// Rows of a block, and how many elements each of them has. kNoRow: a gradient
// of it is passed over.
struct Rows {
  absl::Span<const uint32_t> numbers;
  size_t width = 1;

  size_t elements() const { return numbers.size() * width; }
};

// How a gradient is applied.
struct ApplyOptions {
  // Other pushes that were applied since the read it was computed on.
  uint64_t staleness = 0;
  VariableOptions variable;
  // Where the block begins, as an element of the variable.
  uint64_t first_element = 0;
  // What is smaller becomes zero, of a variable that is pruned.
  float prune_below = 0;
  // By channel, which is a place of the last dimension: not 0 where it becomes
  // zero. Empty: none does.
  absl::Span<const uint8_t> prune_channels = {};
};

// How a gradient changes values: a rule (SGD, Adam, ...: see optimizers/), that
// of the variable's group or of all others, with a learning rate that follows a
// schedule, weight decay and clipping. What is done about staleness: nothing;
// or scale_rate divides the rate by the number of pushes (slots are as ever).
// docs/optimizers.md has the formulae.
//
// Invariant: the result is a function of the arguments of Apply alone, the same
// bits on every machine and however the gradient is cut. The schedule and
// Adam's bias correction follow the count that is handed in, nothing else.
//
// Not thread-safe while UseKernels, SetDecaySteps or SetRateScale runs; else
// immutable.
// Copies share the rule, which never changes.
class Optimizer {
 public:
  using Arrays = Rule::Arrays;

  // `decay_steps`: as Schedule::Create has it. kInvalidArgument if the config
  // has no optimizer, a constant out of its bounds, an unknown or incomplete
  // schedule, or an unknown treatment of staleness.
  static absl::StatusOr<Optimizer> Create(const v1::OptimizerConfig& config,
                                          uint64_t decay_steps);

  // The schedule falls over so many applications from now on; 0: as before.
  void SetDecaySteps(uint64_t decay_steps) {
    for (Group& group : groups_) group.schedule.SetDecaySteps(decay_steps);
  }

  // Every rate is so many times what the schedule says, from now on.
  void SetRateScale(double scale) { rate_scale_ = scale; }

  VariableOptions OptionsOf(const v1::Variable& variable) const;
  // As CheckOptimizerNames.
  absl::Status CheckNames(VariablePointers variables) const {
    return CheckOptimizerNames(config_, variables);
  }
  // As ChannelLeads.
  std::vector<absl::optional<uint32_t>> LeadsOf(
      VariablePointers variables) const {
    return ChannelLeads(config_, variables);
  }

  // What lies beside a value.
  absl::Span<const Slot> slots(const VariableOptions& variable = {}) const {
    if (!variable.trained) return {};
    return OfGroup(variable).slots[variable.sketched ? 3
                                   : variable.keyed  ? 2
                                   : variable.sparse ? 1
                                                     : 0];
  }
  // What each number of a slot begins with; 0 for integers, or without it.
  float initial_slot(size_t slot = 0,
                     const VariableOptions& variable = {}) const;
  // Sets the slots of a row, but for its key and use, to that.
  void BeginRow(uint32_t row, size_t width, const Arrays& block,
                const VariableOptions& variable) const;
  // Sets the slots of trained values, which are as they begin, so that the
  // first gradient begins from these values: of a row, or of all as one.
  void Hold(uint32_t row, size_t width, const Arrays& block,
            const VariableOptions& variable) const;
  // Gives a row the slots of another one, but for key and use.
  void CopyRow(uint32_t from, uint32_t to, size_t width, const Arrays& block,
               const VariableOptions& variable) const;
  // Whether a gradient of zeros leaves each bit of values and slots as it is,
  // however often it is applied.
  bool RestsOnZeros(bool slots_are_zeros,
                    const VariableOptions& variable = {}) const {
    return !variable.trained ||
           (OfGroup(variable).rule->RestsOnZeros(slots_are_zeros) &&
            Decay(variable) == 0 && !variable.pruning.has_value());
  }

  // Reads the next elements of `gradient` and applies them as the one after
  // `applied` others, and prunes what is to be. REQUIRES: that many remain; the
  // elements are a whole block.
  void Apply(const NumberReader& gradient, uint64_t applied,
             const Arrays& arrays, const ApplyOptions& options = {}) const;

  // The same for some rows of a block, whose gradients come one after the
  // other: `block` has all its values and slots, which change in these rows
  // alone. clip_norm is of each row, and so is the count that Adam's bias
  // correction follows. REQUIRES: the variable is trained, the block has the
  // rows, inputs and outputs are the same, and what Apply requires.
  void ApplyRows(const NumberReader& gradient, uint64_t applied,
                 const Rows& rows, const Arrays& block,
                 const ApplyOptions& options) const;

  // Has a cache fetch what ApplyRows will touch of these rows.
  void FetchRows(const Rows& rows, const Arrays& block,
                 const VariableOptions& variable) const;

  // Whether the gradient, of some elements, lies in memory of a device, where
  // to look at it is to fetch it. Reads nothing.
  bool BeginsOnDevice(const NumberReader& gradient) const;

  // Whether the next elements are finite numbers; reads them. REQUIRES: that
  // many remain.
  bool ReadFinite(const NumberReader& gradient, size_t elements) const;

  // Reads the next elements. The mean of their squares; not finite if
  // and only if one of them is not. REQUIRES: as ReadFinite.
  double ReadMeanSquare(const NumberReader& gradient, size_t elements) const;

  // By entry of optimizer.pruning.
  const std::vector<Pruning>& pruning() const { return pruning_; }

  // The learning rate after `applied` applications, before the variable's
  // factor.
  double Rate(uint64_t applied, const VariableOptions& variable = {}) const {
    return OfGroup(variable).schedule.Rate(applied) * rate_scale_;
  }

  // From now on it applies with these; at first with the machine's fastest.
  void UseKernels(const OptimizerKernels& kernels) { kernels_ = &kernels; }

 private:
  // What is done to gradients of some variables.
  struct Group {
    Schedule schedule;
    double learning_rate;  // Before the schedule.
    std::shared_ptr<const Rule> rule;
    // Of sparse variables; null: the same.
    std::shared_ptr<const Rule> row_rule;
    double weight_decay;
    bool decays_itself;  // The rule has a place for it.
    bool l2;             // Else decoupled.
    // Of variables that are dense, sparse, keyed, sketched.
    std::array<std::vector<Slot>, 4> slots;
  };

  // `config`: without groups.
  static absl::StatusOr<Group> MakeGroup(const v1::OptimizerConfig& config,
                                         uint64_t decay_steps);
  // `groups`: those of the config, and at the end that of all others.
  Optimizer(const v1::OptimizerConfig& config, std::vector<Group> groups,
            std::vector<Pruning> pruning);

  const Group& OfGroup(const VariableOptions& variable) const {
    return variable.group.has_value() ? groups_[*variable.group]
                                      : groups_.back();
  }
  bool SumsRows(const VariableOptions& variable) const {
    return variable.sparse && OfGroup(variable).row_rule != nullptr;
  }
  // By what gradients of the variable are applied. REQUIRES: it is trained.
  const Rule& RuleOf(const VariableOptions& variable) const {
    const Group& group = OfGroup(variable);
    return SumsRows(variable) ? *group.row_rule : *group.rule;
  }
  double Decay(const VariableOptions& variable) const {
    return variable.decays ? OfGroup(variable).weight_decay : 0;
  }
  // What to multiply the gradient by, so that its norm is at most clip_norm_.
  // Reads nothing.
  double ClipScale(const NumberReader& gradient, size_t elements) const;
  // Adam's counts of steps, one a row; null if there are none.
  float* StepsIn(size_t width, const Arrays& block,
                 const VariableOptions& variable) const;
  Rule::Step StepOf(const NumberReader& gradient, uint64_t applied,
                    size_t elements, const ApplyOptions& options) const;
  // Of float32 as they were received.
  bool IsOnDevice(const std::byte* gradient, size_t elements) const;
  void AddSquares(const std::byte* gradient, size_t offset, size_t count,
                  double* sums) const;

  v1::OptimizerConfig config_;
  std::vector<Group> groups_;
  std::vector<Pruning> pruning_;
  double rate_scale_ = 1;
  const OptimizerKernels* kernels_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_OPTIMIZER_H_
