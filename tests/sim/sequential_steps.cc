#include "tests/sim/sequential_steps.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "config/magnitudes.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

Optimizer OptimizerOf(const IntegerJob& job) {
  auto optimizer = Optimizer::Create(job.config().optimizer(), 0);
  CHECK(optimizer.ok(), "an IntegerJob has an optimizer that makes sense");
  return *optimizer;
}

}  // namespace

SequentialSteps::SequentialSteps(const IntegerJob& job)
    : job_(job), optimizer_(OptimizerOf(job)) {
  for (size_t v = 0; v < job.variables().size(); ++v) {
    const size_t elements = job.elements(v);
    values_.emplace_back(elements, job.ValueOf(v, 0, 0));
    slots_.emplace_back(elements * optimizer_.slots(OptionsOf(v)).size(),
                        optimizer_.initial_slot());
  }
}

void SequentialSteps::Apply(const DecidedStep& step) {
  CHECK(next_.epoch <= job_.config().epochs(), "input is left");
  const uint64_t end =
      std::min(job_.examples(),
               next_.begin + step.contributors.size() * IntegerJob::kBatch);
  const std::vector<std::vector<float>> sum = SumOf(step, end);
  const std::vector<float> thresholds = FindThresholds();
  for (size_t v = 0; v < sum.size(); ++v) {
    const auto pruned = OptionsOf(v).pruning;
    const BufferChain gradient = {Buffer::Copy(AsBytes<float>(sum[v]))};
    ChainReader reader(gradient);
    optimizer_.Apply(
        &reader, steps_,
        {.elements = values_[v].size(),
         .values = values_[v].data(),
         .slots = slots_[v].data(),
         .new_values = values_[v].data(),
         .new_slots = slots_[v].data()},
        {.staleness = 0,
         .variable = OptionsOf(v),
         .first_element = 0,
         .prune_below = pruned.has_value() ? thresholds[*pruned] : 0});
  }
  ++steps_;
  next_.begin = end;
  if (end == job_.examples()) next_ = {.epoch = next_.epoch + 1, .begin = 0};
}

std::vector<float> SequentialSteps::FindThresholds() const {
  std::vector<float> thresholds;
  for (const Pruning& pruning : optimizer_.pruning()) {
    const auto entry = static_cast<int>(thresholds.size());
    float& below = thresholds.emplace_back(0);
    if (!pruning.is_global() || !pruning.IsTime(steps_)) continue;
    Magnitudes magnitudes;
    for (size_t v = 0; v < values_.size(); ++v) {
      if (OptionsOf(v).pruning == entry) magnitudes.AddValues(values_[v]);
    }
    below = magnitudes.ThresholdFor(pruning.Sparsity(steps_));
  }
  return thresholds;
}

std::vector<std::vector<float>> SequentialSteps::SumOf(const DecidedStep& step,
                                                       uint64_t end) {
  const std::vector<absl::Span<const float>> weights(values_.begin(),
                                                     values_.end());
  const uint64_t examples = end - next_.begin;
  uint64_t contributed = 0;
  std::vector<std::vector<float>> sum;
  for (size_t rank = 0; rank < step.contributors.size(); ++rank) {
    const uint64_t begin = next_.begin + rank * IntegerJob::kBatch;
    if (absl::c_count(step.workers, step.contributors[rank]) == 0) continue;
    if (begin >= end) continue;
    contributed += std::min<uint64_t>(IntegerJob::kBatch, end - begin);
    const std::vector<std::vector<float>> share =
        job_.RoundedGradient({next_.epoch, begin}, weights, examples);
    if (sum.empty()) {
      sum = share;
      continue;
    }
    for (size_t v = 0; v < sum.size(); ++v) {
      for (size_t e = 0; e < sum[v].size(); ++e) sum[v][e] += share[v][e];
    }
  }
  if (contributed == examples) return sum;
  const auto scale = static_cast<float>(static_cast<double>(examples) /
                                        static_cast<double>(contributed));
  for (std::vector<float>& variable : sum) {
    for (float& element : variable) element *= scale;
  }
  return sum;
}

VariableOptions SequentialSteps::OptionsOf(size_t v) const {
  return optimizer_.OptionsOf(job_.variables()[v]);
}

std::vector<std::string> SequentialSteps::names(size_t v) const {
  std::vector<std::string> names = {""};
  for (const Slot& slot : optimizer_.slots(OptionsOf(v))) {
    names.emplace_back(slot.name);
  }
  return names;
}

std::vector<float> SequentialSteps::Numbers(size_t v,
                                            const std::string& slot) const {
  if (slot.empty()) return values_[v];
  const absl::Span<const Slot> slots = optimizer_.slots();
  const auto at =
      absl::c_find_if(slots, [&](const Slot& one) { return one.name == slot; });
  CHECK(at != slots.end(), "the optimizer has this slot");
  const size_t elements = values_[v].size();
  const auto begin = slots_[v].begin() + (at - slots.begin()) * elements;
  return std::vector<float>(begin, begin + elements);
}

}  // namespace paramd
