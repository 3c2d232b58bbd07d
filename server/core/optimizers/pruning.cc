#include "server/core/optimizers/pruning.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/setting.h"
#include "server/core/optimizers/schedule.h"

namespace paramd {
namespace {

using Config = v1::OptimizerConfig::Pruning;

constexpr size_t kWordBits = 64;
constexpr uint64_t kFour = 4;
constexpr size_t kTwo = 2;
constexpr double kHalf = 0.5;

// A bit for each element.
using Bits = std::vector<uint64_t>;

Bits NoneOf(size_t elements) {
  return Bits((elements + kWordBits - 1) / kWordBits);
}

bool HasBit(const Bits& bits, size_t i) {
  return (bits[i / kWordBits] >> (i % kWordBits) & 1) != 0;
}

void SetBit(Bits* bits, size_t i) {
  (*bits)[i / kWordBits] |= uint64_t{1} << (i % kWordBits);
}

size_t CountBits(const Bits& bits) {
  size_t count = 0;
  for (const uint64_t word : bits) {
    count += static_cast<size_t>(std::popcount(word));
  }
  return count;
}

// How many stay of `part` consecutive inputs, from that rank on, of a group: as
// many as of ranks 0 and 2 are among them, hence two of three or four, wherever
// these are cut.
size_t KeptOf(size_t rank, size_t part, size_t group) {
  if (group <= kTwo) return part;
  return (rank + part + 1) / kTwo - (rank + 1) / kTwo;
}

// All but the two largest of each four, of equals the first.
Bits BeyondTwoOfFour(const float* values, size_t elements,
                     const KernelPlace& place) {
  Bits beyond = NoneOf(elements);
  for (size_t i = 0; i < elements; ++i) {
    const uint64_t input = (place.first + i) / place.outputs % place.inputs;
    const uint64_t rank = input % kFour;
    // Looked at with the first of its group that lies in the block.
    if (rank > 0 && i >= place.outputs) continue;
    const size_t group = std::min(kFour, place.inputs - (input - rank));
    const size_t rest = std::min(kFour - rank, place.inputs - input);
    size_t part[kFour] = {};  // Smallest first.
    size_t count = 0;
    for (size_t at = i; count < rest && at < elements; at += place.outputs) {
      size_t k = count++;
      for (; k > 0 && std::abs(values[at]) < std::abs(values[part[k - 1]]);
           --k) {
        part[k] = part[k - 1];
      }
      part[k] = at;
    }
    const size_t gone = count - KeptOf(rank, count, group);
    for (size_t k = 0; k < gone; ++k) SetBit(&beyond, part[k]);
  }
  return beyond;
}

// The `zeros` smallest magnitudes of those, of equals the first. REQUIRES:
// there are as many, and at least one is wanted.
Bits SmallestAmong(const Bits& among, const float* values, size_t elements,
                   size_t zeros) {
  Bits smallest = NoneOf(elements);
  std::vector<float> sizes;
  sizes.reserve(elements);
  for (size_t i = 0; i < elements; ++i) {
    if (HasBit(among, i)) sizes.push_back(std::abs(values[i]));
  }
  const auto last = sizes.begin() + static_cast<ptrdiff_t>(zeros) - 1;
  std::nth_element(sizes.begin(), last, sizes.end());
  const float largest = *last;
  size_t equals =
      zeros - static_cast<size_t>(std::count_if(
                  sizes.begin(), sizes.end(),
                  [largest](float size) { return size < largest; }));
  for (size_t i = 0; i < elements; ++i) {
    const float size = std::abs(values[i]);
    if (!HasBit(among, i) || size > largest) continue;
    if (size == largest && equals == 0) continue;
    if (size == largest) --equals;
    SetBit(&smallest, i);
  }
  return smallest;
}

absl::Status CheckKind(const Config& config) {
  if (!Config::Structure_IsValid(config.structure())) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning.structure ",
                     static_cast<int>(config.structure()), " is unknown here"));
  }
  if (!Config::Scope_IsValid(config.scope())) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning.scope ",
                     static_cast<int>(config.scope()), " is unknown here"));
  }
  const bool two_of_four = config.structure() == Config::TWO_OF_FOUR;
  if (!two_of_four && config.structure() != Config::CHANNELS) {
    return absl::OkStatus();
  }
  if (two_of_four && config.sparsity() != kHalf) {
    return absl::InvalidArgumentError(absl::StrCat(
        "optimizer.pruning.sparsity is 0.5 with structure two_of_four; found ",
        config.sparsity()));
  }
  if (config.scope() == Config::GLOBAL) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.pruning.scope global is not for structure ",
                     two_of_four ? "two_of_four" : "channels"));
  }
  return absl::OkStatus();
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
  RETURN_IF_ERROR(CheckKind(config));
  return Pruning(WithDefaultNumbers(config));
}

Pruning::Pruning(const v1::OptimizerConfig::Pruning& config)
    : two_of_four_(config.structure() == Config::TWO_OF_FOUR),
      is_of_channels_(config.structure() == Config::CHANNELS),
      is_global_(config.scope() == Config::GLOBAL),
      sparsity_(config.sparsity()),
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
                                    uint64_t applied, float below) const {
  if (!HasBegun(applied)) return {};
  const float threshold = IsTime(applied) ? below : 0;
  Bits mask = NoneOf(elements);
  for (size_t i = 0; i < elements; ++i) {
    const bool goes = values[i] == 0 || std::abs(values[i]) < threshold;
    mask[i / kWordBits] |= uint64_t{goes} << (i % kWordBits);
  }
  return mask;
}

void Pruning::AddChannels(absl::Span<const uint8_t> gone, uint64_t first,
                          size_t elements, uint64_t applied,
                          std::vector<uint64_t>* mask) const {
  if (gone.empty() || !IsTime(applied)) return;
  size_t channel = first % gone.size();
  for (size_t i = 0; i < elements; ++i) {
    if (gone[channel] != 0) SetBit(mask, i);
    if (++channel == gone.size()) channel = 0;
  }
}

std::vector<uint64_t> Pruning::SmallestOf(const float* values, size_t elements,
                                          uint64_t applied,
                                          const KernelPlace& place) const {
  // Rounded, and one is left.
  const auto kept = std::max<size_t>(
      1, static_cast<size_t>(
             static_cast<double>(elements) * (1 - Sparsity(applied)) + 0.5));
  size_t zeros = elements - std::min(kept, elements);
  Bits among;
  if (two_of_four_) {
    among = BeyondTwoOfFour(values, elements, place);
    if (applied >= end_step_) return among;
    zeros = std::min(zeros, CountBits(among));
  } else {
    among.assign(NoneOf(elements).size(), ~uint64_t{0});
  }
  if (zeros == 0) return {};
  return SmallestAmong(among, values, elements, zeros);
}

void Pruning::Prune(const std::vector<uint64_t>& mask, uint64_t applied,
                    size_t slots, const Rule::Arrays& arrays,
                    const KernelPlace& place) const {
  const size_t elements = arrays.elements;
  const auto clear = [&](const Bits& named) {
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
  if (is_global_ || is_of_channels_ || !IsTime(applied + 1)) return;
  clear(SmallestOf(arrays.new_values, elements, applied + 1, place));
}

}  // namespace paramd
