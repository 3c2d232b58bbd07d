#include "config/optimizer_slots.h"

#include <algorithm>
#include <string>

#include "config/optimizer_groups.h"

namespace paramd {
namespace {

// Adam and what corrects as it does.
bool CountsSteps(const v1::OptimizerConfig& config) {
  return config.has_adam() || config.has_adamw() || config.has_lamb();
}

// Of each value.
std::vector<absl::string_view> NamesOf(const v1::OptimizerConfig& config) {
  if (CountsSteps(config)) return {"momentum", "variance"};
  if (config.has_adagrad()) return {"accumulator"};
  if (config.has_ftrl()) return {"accumulator", "linear"};
  if (config.has_adadelta()) return {"square", "delta"};
  if (config.has_rmsprop()) {
    std::vector<absl::string_view> names = {"square"};
    if (config.rmsprop().centered()) names.push_back("mean");
    if (config.rmsprop().momentum() > 0) names.push_back("momentum");
    return names;
  }
  if (config.sgd().momentum() > 0) return {"momentum"};
  return {};
}

bool SumsRows(const v1::OptimizerConfig& config, const SlotOwner& owner) {
  return owner.sparse && config.adagrad().row_wise();
}

}  // namespace

uint64_t Slot::words(uint64_t elements, uint64_t row_elements) const {
  if (!by_row) return elements;
  return elements / row_elements * (dtype == v1::INT64 ? 2 : 1);
}

bool IsSketched(const v1::Variable& variable) {
  return variable.keyed() && variable.admit_after() > 1;
}

SlotOwner SlotOwnerOf(const v1::Variable& variable) {
  return {.trained = !variable.untrained(),
          .sparse = variable.sparse(),
          .keyed = variable.keyed(),
          .sketched = IsSketched(variable)};
}

Slot SlotNamed(absl::string_view name) {
  if (name == kKeySlot || name == kUsedSlot || name == kSketchSlot) {
    return {name, true, v1::INT64};
  }
  return {name, name == kStepsSlot || name == kRowAccumulatorSlot};
}

// Integers come first: they lie at multiples of 8 bytes then.
std::vector<Slot> SlotsOf(const v1::OptimizerConfig& config,
                          const SlotOwner& owner) {
  std::vector<Slot> slots;
  if (!owner.trained) return slots;
  if (owner.keyed) {
    slots.push_back(SlotNamed(kKeySlot));
    slots.push_back(SlotNamed(kUsedSlot));
  }
  if (owner.sketched) slots.push_back(SlotNamed(kSketchSlot));
  if (SumsRows(config, owner)) {
    slots.push_back(SlotNamed(kRowAccumulatorSlot));
    return slots;
  }
  for (const absl::string_view name : NamesOf(config)) {
    slots.push_back(SlotNamed(name));
  }
  if (owner.sparse && CountsSteps(config)) {
    slots.push_back(SlotNamed(kStepsSlot));
  }
  return slots;
}

std::vector<Slot> SlotsOf(const v1::OptimizerConfig& config,
                          const v1::Variable& variable) {
  return SlotsOf(KindOf(config, variable.name()), SlotOwnerOf(variable));
}

std::vector<Slot> SlotsOf(
    const v1::OptimizerConfig& config,
    const google::protobuf::RepeatedPtrField<v1::Variable>& variables) {
  std::vector<Slot> all;
  const auto add = [&](const v1::Variable& variable) {
    for (const Slot& slot : SlotsOf(config, variable)) {
      const bool known = std::any_of(
          all.begin(), all.end(),
          [&](const Slot& other) { return other.name == slot.name; });
      if (!known) all.push_back(slot);
    }
  };
  // Sketched ones first, then keyed ones: what they have stands before what
  // others have.
  for (const v1::Variable& variable : variables) {
    if (IsSketched(variable)) add(variable);
  }
  for (const v1::Variable& variable : variables) {
    if (variable.keyed()) add(variable);
  }
  for (const v1::Variable& variable : variables) add(variable);
  return all;
}

std::vector<Slot> SlotsOf(
    const google::protobuf::RepeatedPtrField<std::string>& names,
    const SlotOwner& owner) {
  std::vector<Slot> slots;
  if (!owner.trained) return slots;
  const bool sums_rows =
      owner.sparse &&
      std::find(names.begin(), names.end(), kRowAccumulatorSlot) != names.end();
  for (const std::string& name : names) {
    if (!owner.keyed && (name == kKeySlot || name == kUsedSlot)) continue;
    if (!owner.sketched && name == kSketchSlot) continue;
    if (!owner.sparse && (name == kStepsSlot || name == kRowAccumulatorSlot)) {
      continue;
    }
    if (sums_rows && name == "accumulator") continue;
    slots.push_back(SlotNamed(name));
  }
  return slots;
}

bool FollowFrom(const google::protobuf::RepeatedPtrField<std::string>& names,
                const SlotOwner& owner, absl::Span<const Slot> slots) {
  const std::vector<Slot> found = SlotsOf(names, owner);
  return std::equal(
      found.begin(), found.end(), slots.begin(), slots.end(),
      [](const Slot& a, const Slot& b) { return a.name == b.name; });
}

std::vector<Slot> SlotsNamed(
    const google::protobuf::RepeatedPtrField<std::string>& names) {
  std::vector<Slot> slots;
  for (const std::string& name : names) slots.push_back(SlotNamed(name));
  return slots;
}

}  // namespace paramd
