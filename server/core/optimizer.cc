#include "server/core/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/name_pattern.h"
#include "config/optimizer_groups.h"
#include "config/optimizer_names.h"
#include "config/optimizer_slots.h"
#include "config/setting.h"

namespace paramd {
namespace {

// Inputs and outputs are the last two dimensions.
constexpr int kKernelRank = 2;

// A row is seldom in a cache: those so far behind it are fetched meanwhile.
constexpr size_t kRowsAhead = 6;

void FetchRow(const float* begin, size_t count) {
  constexpr size_t kLine = 64 / sizeof(float);
  for (size_t i = 0; i < count; i += kLine) {
    __builtin_prefetch(begin + i, /*write=*/1);
  }
}

// Untrained variables: w' = w - g.
const Rule& Subtraction() {
  static const Rule* const kRule = MakeSgd()->release();
  return *kRule;
}

absl::Status CheckDecays(const v1::OptimizerConfig& config) {
  RETURN_IF_ERROR(CheckNotNegative("weight_decay", config.weight_decay()));
  RETURN_IF_ERROR(
      CheckNotNegative("adamw.weight_decay", config.adamw().weight_decay()));
  return CheckNotNegative("lamb.weight_decay", config.lamb().weight_decay());
}

absl::Status CheckConfig(const v1::OptimizerConfig& config) {
  const auto treatment = config.staleness_treatment();
  if (treatment < v1::OptimizerConfig::STALENESS_TREATMENT_UNSPECIFIED ||
      treatment > v1::OptimizerConfig::SCALE_RATE) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.staleness_treatment ",
                     static_cast<int>(treatment), " is unknown here"));
  }
  if (config.decay() < v1::OptimizerConfig::DECAY_UNSPECIFIED ||
      config.decay() > v1::OptimizerConfig::DECAY_L2) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.decay ", static_cast<int>(config.decay()),
                     " is unknown here"));
  }
  RETURN_IF_ERROR(CheckNotNegative("clip_value", config.clip_value()));
  RETURN_IF_ERROR(CheckNotNegative("clip_norm", config.clip_norm()));
  for (const v1::OptimizerConfig::RateFactor& some : config.rate_factors()) {
    RETURN_IF_ERROR(CheckNotNegative("rate_factors", some.factor()));
  }
  return absl::OkStatus();
}

double WeightDecayOf(const v1::OptimizerConfig& config) {
  if (config.has_lamb()) return config.lamb().weight_decay();
  if (!config.has_adamw()) return config.weight_decay();
  return WithDefaultNumbers(config.adamw()).weight_decay();
}

// Slots of 8 bytes a row.
size_t CountIntegers(absl::Span<const Slot> slots) {
  return static_cast<size_t>(
      std::count_if(slots.begin(), slots.end(),
                    [](const Slot& slot) { return slot.dtype == v1::INT64; }));
}

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Create(const v1::OptimizerConfig& config,
                                            uint64_t decay_steps) {
  std::vector<Group> groups;
  for (int g = 0; g < config.groups_size(); ++g) {
    v1::OptimizerConfig of_group = config;
    const auto mistake = UseGroup(g, &of_group);
    if (mistake.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "optimizer.groups[", g, "].", mistake->key, ": ", mistake->sentence));
    }
    ASSIGN_OR_RETURN(Group group, MakeGroup(of_group, decay_steps));
    groups.push_back(std::move(group));
  }
  ASSIGN_OR_RETURN(Group others, MakeGroup(config, decay_steps));
  groups.push_back(std::move(others));
  RETURN_IF_ERROR(CheckConfig(config));
  std::vector<Pruning> pruning;
  for (const v1::OptimizerConfig::Pruning& some : config.pruning()) {
    ASSIGN_OR_RETURN(Pruning one, Pruning::Create(some));
    pruning.push_back(std::move(one));
  }
  return Optimizer(config, std::move(groups), std::move(pruning));
}

absl::StatusOr<Optimizer::Group> Optimizer::MakeGroup(
    const v1::OptimizerConfig& config, uint64_t decay_steps) {
  RETURN_IF_ERROR(CheckDecays(config));
  ASSIGN_OR_RETURN(std::shared_ptr<const Rule> rule, MakeRule(config));
  std::shared_ptr<const Rule> row_rule;
  if (config.adagrad().row_wise()) {
    ASSIGN_OR_RETURN(row_rule,
                     MakeRowAdagrad(WithDefaultNumbers(config.adagrad())));
  }
  ASSIGN_OR_RETURN(const Schedule schedule,
                   Schedule::Create(config, decay_steps));
  return Group{
      .schedule = schedule,
      .learning_rate = config.learning_rate(),
      .rule = std::move(rule),
      .row_rule = std::move(row_rule),
      .weight_decay = WeightDecayOf(config),
      .decays_itself = config.has_lamb(),
      .l2 = !config.has_adamw() &&
            config.decay() == v1::OptimizerConfig::DECAY_L2,
      .slots = {
          SlotsOf(config, SlotOwner{}),
          SlotsOf(config, SlotOwner{.sparse = true}),
          SlotsOf(config, SlotOwner{.sparse = true, .keyed = true}),
          SlotsOf(config,
                  SlotOwner{.sparse = true, .keyed = true, .sketched = true})}};
}

Optimizer::Optimizer(const v1::OptimizerConfig& config,
                     std::vector<Group> groups, std::vector<Pruning> pruning)
    : config_(config),
      groups_(std::move(groups)),
      pruning_(std::move(pruning)),
      kernels_(&MachineKernels()) {}

VariableOptions Optimizer::OptionsOf(const v1::Variable& variable) const {
  VariableOptions options;
  options.trained = !variable.untrained();
  options.sparse = variable.sparse();
  options.keyed = variable.keyed();
  options.sketched = IsSketched(variable);
  options.decays = !MatchesAny(config_.no_decay(), variable.name());
  for (const v1::OptimizerConfig::RateFactor& some : config_.rate_factors()) {
    if (!MatchesAny(some.variables(), variable.name())) continue;
    options.rate_factor = some.factor();
    break;
  }
  options.group = GroupOf(config_, variable.name());
  options.pruning = PruningOf(config_, variable);
  const int rank = variable.shape_size();
  if (rank >= kKernelRank) {
    options.inputs = variable.shape(rank - 2);
    options.outputs = variable.shape(rank - 1);
  }
  return options;
}

float Optimizer::initial_slot(size_t slot,
                              const VariableOptions& variable) const {
  const absl::Span<const Slot> all = slots(variable);
  if (slot >= all.size() || all[slot].dtype == v1::INT64 ||
      all[slot].name == kStepsSlot) {
    return 0;
  }
  return RuleOf(variable).initial_slot(slot - CountIntegers(all));
}

void Optimizer::BeginRow(uint32_t row, size_t width, const Arrays& block,
                         const VariableOptions& variable) const {
  const absl::Span<const Slot> slots = this->slots(variable);
  float* all = block.new_slots;
  for (size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].dtype == v1::FLOAT32) {
      const size_t words = slots[s].words(width, width);
      std::fill_n(all + row * words, words, initial_slot(s, variable));
    }
    all += slots[s].words(block.elements, width);
  }
}

void Optimizer::Hold(uint32_t row, size_t width, const Arrays& block,
                     const VariableOptions& variable) const {
  const size_t first = row * width;
  Arrays arrays = block;
  arrays.elements = width;
  arrays.slot_stride = block.elements;
  arrays.values += first;
  arrays.new_slots +=
      2 * CountIntegers(slots(variable)) * (block.elements / width) + first;
  // Whatever the schedule begins with: it ends its warm-up at this rate.
  RuleOf(variable).Hold(OfGroup(variable).learning_rate * variable.rate_factor,
                        arrays);
}

void Optimizer::CopyRow(uint32_t from, uint32_t to, size_t width,
                        const Arrays& block,
                        const VariableOptions& variable) const {
  float* all = block.new_slots;
  for (const Slot& slot : slots(variable)) {
    if (slot.dtype == v1::FLOAT32) {
      const size_t words = slot.words(width, width);
      std::copy_n(all + from * words, words, all + to * words);
    }
    all += slot.words(block.elements, width);
  }
}

double Optimizer::ClipScale(const NumberReader& gradient,
                            size_t elements) const {
  double sums[OptimizerKernels::kSumLanes] = {};
  gradient.ForEachRunAhead(
      elements, [&](const std::byte* g, size_t offset, size_t count) {
        AddSquares(g, offset, count, sums);
      });
  double sum = 0;
  for (const double lane : sums) sum += lane;
  const double norm = std::sqrt(sum);
  return norm > config_.clip_norm() ? config_.clip_norm() / norm : 1;
}

Rule::Step Optimizer::StepOf(const NumberReader& gradient, uint64_t applied,
                             size_t elements,
                             const ApplyOptions& options) const {
  const bool scales =
      config_.staleness_treatment() == v1::OptimizerConfig::SCALE_RATE &&
      options.staleness > 1;
  Rule::Step step;
  step.rate = Rate(applied, options.variable) * options.variable.rate_factor;
  if (scales) step.rate /= static_cast<double>(options.staleness);
  step.number = applied + 1;
  step.set = kernels_->set;
  step.device = kernels_->device;
  const Group& group = OfGroup(options.variable);
  double decay = Decay(options.variable);
  if (group.decays_itself) step.decay = std::exchange(decay, 0);
  step.adjusted =
      decay > 0 || config_.clip_value() > 0 || config_.clip_norm() > 0;
  step.adjustment = {std::numeric_limits<float>::infinity(), 1, 0, 1};
  if (!step.adjusted) return step;
  if (config_.clip_value() > 0) {
    step.adjustment.limit = static_cast<float>(config_.clip_value());
  }
  if (config_.clip_norm() > 0) {
    step.adjustment.scale = static_cast<float>(ClipScale(gradient, elements));
  }
  if (group.l2) {
    step.adjustment.l2 = static_cast<float>(decay);
  } else {
    step.adjustment.keep = static_cast<float>(1.0 - step.rate * decay);
  }
  return step;
}

void Optimizer::Apply(const NumberReader& gradient, uint64_t applied,
                      const Arrays& arrays, const ApplyOptions& options) const {
  if (options.variable.trained) {
    const auto pruned = options.variable.pruning;
    std::vector<uint64_t> mask;
    if (pruned.has_value()) {
      const Pruning& pruning = pruning_[*pruned];
      mask = pruning.Mask(arrays.values, arrays.elements, applied,
                          options.prune_below);
      pruning.AddChannels(options.prune_channels, options.first_element,
                          arrays.elements, applied, &mask);
    }
    OfGroup(options.variable)
        .rule->Apply(gradient,
                     StepOf(gradient, applied, arrays.elements, options),
                     arrays);
    if (pruned.has_value()) {
      pruning_[*pruned].Prune(mask, applied, slots(options.variable).size(),
                              arrays,
                              {.first = options.first_element,
                               .inputs = options.variable.inputs,
                               .outputs = options.variable.outputs});
    }
    return;
  }
  Rule::Step step = {};
  step.rate = 1;
  step.set = kernels_->set;
  step.device = kernels_->device;
  Subtraction().Apply(gradient, step, arrays);
}

void Optimizer::FetchRows(const Rows& rows, const Arrays& block,
                          const VariableOptions& variable) const {
  const bool sums_rows = SumsRows(variable);
  const size_t integers =
      2 * CountIntegers(slots(variable)) * (block.elements / rows.width);
  for (const uint32_t row : rows.numbers) {
    if (row == kNoRow) continue;
    if (block.values != nullptr) {
      FetchRow(block.values + row * rows.width, rows.width);
    }
    if (block.slots == nullptr) continue;
    FetchRow(block.slots + integers + (sums_rows ? row : row * rows.width),
             sums_rows ? 1 : rows.width);
  }
}

void Optimizer::ApplyRows(const NumberReader& gradient, uint64_t applied,
                          const Rows& rows, const Arrays& block,
                          const ApplyOptions& options) const {
  const Rule& rule = RuleOf(options.variable);
  const bool sums_rows = SumsRows(options.variable);
  // Integers come first, then what is of each number, then of each row.
  const size_t integers = 2 * CountIntegers(slots(options.variable)) *
                          (block.elements / rows.width);
  float* const steps = StepsIn(rows.width, block, options.variable);
  // Looks at no gradient yet: a norm is of one row.
  Rule::Step step = StepOf(gradient, applied, /*elements=*/0, options);
  for (size_t i = 0; i < rows.numbers.size(); ++i) {
    if (i + kRowsAhead < rows.numbers.size() &&
        rows.numbers[i + kRowsAhead] != kNoRow) {
      const size_t ahead = rows.numbers[i + kRowsAhead] * rows.width;
      FetchRow(block.values + ahead, rows.width);
      if (block.slots != nullptr && !sums_rows) {
        FetchRow(block.slots + integers + ahead, rows.width);
      }
    }
    const uint32_t row = rows.numbers[i];
    if (row == kNoRow) {
      gradient.Skip(rows.width);
      continue;
    }
    const size_t first = row * rows.width;
    Arrays arrays = block;
    arrays.elements = rows.width;
    arrays.slot_stride = block.elements;
    arrays.values += first;
    arrays.new_values += first;
    if (arrays.slots != nullptr) {
      arrays.slots += integers + (sums_rows ? row : first);
      arrays.new_slots += integers + (sums_rows ? row : first);
    }
    if (steps != nullptr) {
      step.number = static_cast<uint64_t>(++steps[row]);
    }
    if (config_.clip_norm() > 0) {
      step.adjustment.scale =
          static_cast<float>(ClipScale(gradient, rows.width));
    }
    rule.Apply(gradient, step, arrays);
  }
}

float* Optimizer::StepsIn(size_t width, const Arrays& block,
                          const VariableOptions& variable) const {
  float* all = block.new_slots;
  for (const Slot& slot : slots(variable)) {
    if (slot.name == kStepsSlot) return all;
    all += slot.words(block.elements, width);
  }
  return nullptr;
}

bool Optimizer::ReadFinite(const NumberReader& gradient,
                           size_t elements) const {
  if (gradient.format() != NumberFormat::kFp32) {
    return gradient.ReadFinite(elements);
  }
  bool finite = true;
  gradient.ForEachRun(elements, [&](const std::byte* g, size_t, size_t count) {
    finite = (IsOnDevice(g, count) ? kernels_->device->AllFinite(g, count)
                                   : kernels_->all_finite(g, count)) &&
             finite;
  });
  return finite;
}

bool Optimizer::IsOnDevice(const std::byte* gradient, size_t elements) const {
  return kernels_->device != nullptr &&
         kernels_->device->Has({gradient, elements * sizeof(float)});
}

bool Optimizer::BeginsOnDevice(const NumberReader& gradient) const {
  bool on_device = false;
  if (kernels_->device == nullptr) return false;
  gradient.ForEachRunAhead(1, [&](const std::byte* g, size_t, size_t) {
    on_device = IsOnDevice(g, 1);
  });
  return on_device;
}

void Optimizer::AddSquares(const std::byte* gradient, size_t offset,
                           size_t count, double* sums) const {
  if (IsOnDevice(gradient, count)) {
    return kernels_->device->AddSquares(gradient, count, offset, sums);
  }
  kernels_->add_squares(gradient, count, offset, sums);
}

double Optimizer::ReadMeanSquare(const NumberReader& gradient,
                                 size_t elements) const {
  double sums[OptimizerKernels::kSumLanes] = {};
  gradient.ForEachRun(elements,
                      [&](const std::byte* g, size_t offset, size_t count) {
                        AddSquares(g, offset, count, sums);
                      });
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return elements == 0 ? 0 : sum / static_cast<double>(elements);
}

}  // namespace paramd
