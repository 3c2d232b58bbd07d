#include "server/core/optimizers/pruning.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/setting.h"
#include "server/core/optimizers/schedule.h"

namespace paramd {
namespace {

constexpr size_t kWordBits = 64;

void SetBit(std::vector<uint64_t>* mask, size_t i) {
  (*mask)[i / kWordBits] |= uint64_t{1} << (i % kWordBits);
}

// Names the `zeros` smallest magnitudes, of equals the first.
void AddSmallest(const float* values, size_t elements, size_t zeros,
                 std::vector<uint64_t>* mask) {
  std::vector<float> sizes(elements);
  std::transform(values, values + elements, sizes.begin(),
                 [](float value) { return std::abs(value); });
  const auto last = sizes.begin() + static_cast<ptrdiff_t>(zeros) - 1;
  std::nth_element(sizes.begin(), last, sizes.end());
  const float largest = *last;
  size_t equals =
      zeros - static_cast<size_t>(std::count_if(
                  sizes.begin(), sizes.end(),
                  [largest](float size) { return size < largest; }));
  for (size_t i = 0; i < elements; ++i) {
    const float size = std::abs(values[i]);
    if (size > largest || (size == largest && equals == 0)) continue;
    if (size == largest) --equals;
    SetBit(mask, i);
  }
}

}  // namespace

absl::StatusOr<Pruning> Pruning::Create(
    const v1::OptimizerConfig::Pruning& config) {
  RETURN_IF_ERROR(CheckShare("pruning.sparsity", config.sparsity()));
  RETURN_IF_ERROR(
      CheckShare("pruning.initial_sparsity", config.initial_sparsity()));
  if (config.initial_sparsity() > config.sparsity()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.pruning.initial_sparsity is above sparsity (",
        config.sparsity(), "); found ", config.initial_sparsity()));
  }
  if (config.end_step() < config.begin_step()) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning.end_step is before begin_step (",
                     config.begin_step(), "); found ", config.end_step()));
  }
  return Pruning(WithDefaultNumbers(config));
}

Pruning::Pruning(const v1::OptimizerConfig::Pruning& config)
    : sparsity_(config.sparsity()),
      initial_sparsity_(config.initial_sparsity()),
      begin_step_(config.begin_step()),
      end_step_(config.end_step()),
      every_steps_(std::max<uint64_t>(1, config.every_steps())),
      power_(config.power()) {}

double Pruning::Sparsity(uint64_t applied) const {
  if (applied < begin_step_) return 0;
  if (applied >= end_step_) return sparsity_;
  const double left = static_cast<double>(end_step_ - applied) /
                      static_cast<double>(end_step_ - begin_step_);
  return sparsity_ +
         (initial_sparsity_ - sparsity_) * RealPowerOf(left, power_);
}

bool Pruning::IsTime(uint64_t applied) const {
  if (applied < begin_step_ || applied > end_step_) return false;
  return applied == end_step_ || (applied - begin_step_) % every_steps_ == 0;
}

std::vector<uint64_t> Pruning::Mask(const float* values, size_t elements,
                                    uint64_t applied) const {
  std::vector<uint64_t> mask;
  if (applied < begin_step_) return mask;
  mask.resize((elements + kWordBits - 1) / kWordBits);
  for (size_t i = 0; i < elements; ++i) {
    mask[i / kWordBits] |= uint64_t{values[i] == 0} << (i % kWordBits);
  }
  return mask;
}

void Pruning::Prune(const std::vector<uint64_t>& mask, uint64_t applied,
                    size_t slots, const Rule::Arrays& arrays) const {
  const size_t elements = arrays.elements;
  const auto clear = [&](const std::vector<uint64_t>& named) {
    for (size_t word = 0; word < named.size(); ++word) {
      if (named[word] == 0) continue;
      const size_t first = word * kWordBits;
      const size_t count = std::min(kWordBits, elements - first);
      for (size_t bit = 0; bit < count; ++bit) {
        if ((named[word] >> bit & 1) == 0) continue;
        arrays.new_values[first + bit] = 0;
        for (size_t s = 0; s < slots; ++s) {
          arrays.new_slots[s * elements + first + bit] = 0;
        }
      }
    }
  };
  clear(mask);
  if (!IsTime(applied + 1)) return;
  // Rounded, and one is left.
  const auto kept = std::max<size_t>(
      1,
      static_cast<size_t>(
          static_cast<double>(elements) * (1 - Sparsity(applied + 1)) + 0.5));
  if (kept >= elements) return;
  std::vector<uint64_t> smallest((elements + kWordBits - 1) / kWordBits);
  AddSmallest(arrays.new_values, elements, elements - kept, &smallest);
  clear(smallest);
}

}  // namespace paramd
