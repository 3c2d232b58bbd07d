#include "compute/model/recompute_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

#include "compute/model/recompute.h"
#include "compute/model/swapped.h"

namespace paramd {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

// What a layer of the resulting sequence takes.
struct Taken {
  uint64_t kept = 0;
  uint64_t scratch = 0;
  uint64_t cost = 0;  // Operations for one example, or as long as that.
};

// Of links that are in a Recompute or a Swapped, to which one after the other
// is added, from the last to the first.
class Segment {
 public:
  void AddBefore(const ChainLink& link) {
    if (is_empty_) {
      // What comes out is the Recompute's own; see Recompute::Lay.
      within_ = link.kept_bytes + (link.reads_output ? 0 : link.output_bytes);
      kept_ = link.kept_bytes;
      flops_ = link.kept_bytes == 0 ? 0 : link.flops;
    } else {
      within_ += link.output_bytes + link.kept_bytes;
      kept_ += link.output_bytes + link.kept_bytes;
      flops_ += link.flops;
    }
    largest_input_ = std::max(largest_input_, link.input_bytes);
    scratch_ = std::max(scratch_, link.scratch_bytes);
    is_empty_ = false;
  }

  uint64_t scratch() const { return within_ + 2 * largest_input_ + scratch_; }
  uint64_t flops_again() const { return flops_; }
  // What would be written.
  uint64_t kept() const { return kept_; }
  bool IsSwapped(const ChainUse& use) const {
    return use.flops_per_swapped_byte > 0 && SwapCost(use) < flops_;
  }
  uint64_t CostIn(const ChainUse& use) const {
    return IsSwapped(use) ? SwapCost(use) : flops_;
  }

 private:
  uint64_t SwapCost(const ChainUse& use) const {
    const double cost =
        std::ceil(static_cast<double>(kept_) * use.flops_per_swapped_byte);
    return cost < 1e18 ? static_cast<uint64_t>(cost) : kUnlimited;
  }

  bool is_empty_ = true;
  uint64_t within_ = 0;
  uint64_t kept_ = 0;
  uint64_t largest_input_ = 0;
  uint64_t scratch_ = 0;
  uint64_t flops_ = 0;
};

// The last layer that is no view writes to the sequence's output.
uint64_t KeptOutput(absl::Span<const ChainLink> chain, size_t link) {
  return link + 1 == chain.size() ? 0 : chain[link].output_bytes;
}

Taken Alone(absl::Span<const ChainLink> chain, size_t link) {
  return {.kept = KeptOutput(chain, link) + chain[link].kept_bytes,
          .scratch = chain[link].scratch_bytes};
}

// A plan of the first links.
struct Prefix {
  uint64_t cost = 0;
  uint64_t kept = 0;  // Of all live batches.
  uint64_t scratch = 0;
  // Where its last layer begins, and which plan of the links before it is.
  size_t begin = 0;
  size_t before = 0;
  bool is_recomputed = false;

  std::tuple<uint64_t, uint64_t, uint64_t> order() const {
    return {cost, kept, scratch};
  }
};

// Those of which no other is better in everything, where bytes are counted in
// units.
std::vector<Prefix> Undominated(std::vector<Prefix> all, uint64_t unit) {
  std::sort(all.begin(), all.end(), [](const Prefix& a, const Prefix& b) {
    return a.order() < b.order();
  });
  std::map<uint64_t, uint64_t> scratch_by_kept;  // The one falls, one rises.
  std::vector<Prefix> best;
  for (const Prefix& one : all) {
    const uint64_t kept = one.kept / unit;
    const uint64_t scratch = one.scratch / unit;
    auto next = scratch_by_kept.upper_bound(kept);
    if (next != scratch_by_kept.begin() && std::prev(next)->second <= scratch) {
      continue;
    }
    while (next != scratch_by_kept.end() && next->second >= scratch) {
      next = scratch_by_kept.erase(next);
    }
    scratch_by_kept[kept] = scratch;
    best.push_back(one);
  }
  return best;
}

// Which plans are looked for.
struct Limits {
  // Of the bytes of each layer's input: there is memory for two gradients of
  // that size.
  uint64_t input = 0;
  uint64_t bytes = kUnlimited;
  uint64_t cost = kUnlimited;
  uint64_t unit = 1;  // See Undominated.
};

// The plans within limits that are worth a look, for each number of first
// links.
class Search {
 public:
  Search(absl::Span<const ChainLink> chain, const ChainUse& use,
         const Limits& limits)
      : chain_(chain), use_(use), limits_(limits), plans_(chain.size() + 1) {
    plans_[0].emplace_back();
    for (size_t end = 1; end <= chain.size(); ++end) {
      plans_[end] = Undominated(EndingAt(end), limits.unit);
    }
  }

  // Of the whole chain; empty if none fits.
  const std::vector<Prefix>& plans() const { return plans_.back(); }

  uint64_t BytesOf(const Prefix& plan) const {
    return use_.live * use_.border_bytes + 2 * limits_.input + plan.kept +
           plan.scratch;
  }

  std::vector<RecomputedLinks> SegmentsOf(Prefix plan) const {
    std::vector<RecomputedLinks> segments;
    for (size_t end = chain_.size(); end > 0;) {
      if (plan.is_recomputed) {
        segments.insert(segments.begin(), RecomputedLinks{plan.begin, end});
      }
      end = plan.begin;
      plan = plans_[end][plan.before];
    }
    return segments;
  }

 private:
  std::vector<Prefix> EndingAt(size_t end) const {
    std::vector<Prefix> found;
    Segment segment;
    for (size_t begin = end; begin-- > 0;) {
      segment.AddBefore(chain_[begin]);
      if (begin + 1 < end &&
          BytesOf({.scratch = segment.scratch()}) > limits_.bytes) {
        break;
      }
      if (chain_[begin].input_bytes > limits_.input) continue;
      if (begin + 1 == end) {
        Add(begin, Alone(chain_, begin), /*is_recomputed=*/false, &found);
      }
      Add(begin,
          {.kept = KeptOutput(chain_, end - 1),
           .scratch = segment.scratch(),
           .cost = segment.CostIn(use_)},
          /*is_recomputed=*/true, &found);
    }
    return found;
  }

  // Each plan of the links before it with this layer behind it.
  void Add(size_t begin, const Taken& taken, bool is_recomputed,
           std::vector<Prefix>* found) const {
    for (size_t i = 0; i < plans_[begin].size(); ++i) {
      const Prefix& before = plans_[begin][i];
      const Prefix plan = {.cost = before.cost + taken.cost,
                           .kept = before.kept + use_.live * taken.kept,
                           .scratch = std::max(before.scratch, taken.scratch),
                           .begin = begin,
                           .before = i,
                           .is_recomputed = is_recomputed};
      if (plan.cost <= limits_.cost && BytesOf(plan) <= limits_.bytes) {
        found->push_back(plan);
      }
    }
  }

  const absl::Span<const ChainLink> chain_;
  const ChainUse& use_;
  const Limits limits_;
  std::vector<std::vector<Prefix>> plans_;  // By the number of links.
};

// What the largest input of a plan's layers may be, the largest first.
std::vector<uint64_t> LargestInputs(absl::Span<const ChainLink> chain) {
  std::set<uint64_t> inputs;
  for (const ChainLink& link : chain) {
    inputs.insert(std::max(link.input_bytes, chain.front().input_bytes));
  }
  return {inputs.rbegin(), inputs.rend()};
}

}  // namespace

std::vector<ChainLink> ChainOf(const Sequence& layers, size_t begin, size_t end,
                               uint64_t examples, DType dtype) {
  const auto bytes_of = [&](uint64_t size) {
    return Aligned(examples * size * SizeOf(dtype));
  };
  std::vector<ChainLink> chain;
  for (size_t i = begin; i < end; ++i) {
    const Layer& layer = layers.layer(i);
    if (layer.is_view()) continue;
    chain.push_back({.name = layer.name(),
                     .layer = i,
                     .input_bytes = bytes_of(layer.input_size()),
                     .output_bytes = bytes_of(layer.output_size()),
                     .kept_bytes = Aligned(layer.KeptBytes(examples, dtype)),
                     .scratch_bytes = layer.ScratchBytes(examples, dtype),
                     .reads_output = layer.reads_output(),
                     .flops = layer.flops()});
  }
  return chain;
}

RecomputePlan PlanOf(absl::Span<const ChainLink> chain, const ChainUse& use,
                     std::vector<RecomputedLinks> segments) {
  RecomputePlan plan;
  uint64_t kept = use.border_bytes;
  uint64_t scratch = 0;
  uint64_t largest_input = 0;
  auto next = segments.begin();
  for (size_t i = 0; i < chain.size();) {
    Taken taken = Alone(chain, i);
    largest_input = std::max(largest_input, chain[i].input_bytes);
    if (next != segments.end() && next->begin == i) {
      Segment segment;
      for (size_t j = next->end; j-- > i;) segment.AddBefore(chain[j]);
      next->is_swapped = segment.IsSwapped(use);
      (next->is_swapped ? plan.swapped_bytes : plan.flops_again) +=
          next->is_swapped ? segment.kept() : segment.flops_again();
      i = next++->end;
      taken = {.kept = KeptOutput(chain, i - 1), .scratch = segment.scratch()};
    } else {
      ++i;
    }
    kept += taken.kept;
    scratch = std::max(scratch, taken.scratch);
  }
  plan.bytes = use.live * kept + 2 * largest_input + scratch;
  plan.segments = std::move(segments);
  return plan;
}

RecomputePlan SmallestPlan(absl::Span<const ChainLink> chain,
                           const ChainUse& use) {
  // Then only bytes tell plans apart.
  std::vector<ChainLink> free(chain.begin(), chain.end());
  for (ChainLink& link : free) link.flops = 0;
  Limits limits;
  std::vector<RecomputedLinks> segments;
  for (const uint64_t input : LargestInputs(chain)) {
    limits.input = input;
    const Search search(free, use, limits);
    for (const Prefix& plan : search.plans()) {
      if (search.BytesOf(plan) >= limits.bytes) continue;
      limits.bytes = search.BytesOf(plan);
      segments = search.SegmentsOf(plan);
    }
  }
  return PlanOf(chain, use, std::move(segments));
}

absl::optional<RecomputePlan> CheapestPlan(absl::Span<const ChainLink> chain,
                                           const ChainUse& use,
                                           uint64_t budget) {
  RecomputePlan all_kept = PlanOf(chain, use, {});
  if (all_kept.bytes <= budget) return all_kept;
  Limits limits{.bytes = budget, .unit = budget / 1000 + 1};
  absl::optional<std::vector<RecomputedLinks>> segments;
  for (const uint64_t input : LargestInputs(chain)) {
    limits.input = input;
    const Search search(chain, use, limits);
    // The cheapest one is the first.
    if (search.plans().empty()) continue;
    const Prefix& plan = search.plans().front();
    if (segments.has_value() && plan.cost == limits.cost) continue;
    limits.cost = plan.cost;
    segments = search.SegmentsOf(plan);
  }
  if (segments.has_value()) return PlanOf(chain, use, *std::move(segments));
  // One that only just fits may have had another stand for it.
  RecomputePlan smallest = SmallestPlan(chain, use);
  if (smallest.bytes > budget) return absl::nullopt;
  return smallest;
}

std::unique_ptr<Sequence> WithRecompute(const Sequence& layers,
                                        absl::Span<const LayerRange> ranges) {
  Sequence::Layers made;
  const LayerRange* next = ranges.begin();
  for (size_t i = 0; i < layers.size();) {
    if (next == ranges.end() || next->begin != i) {
      made.push_back(layers.shared_layer(i++));
      continue;
    }
    const auto number = next - ranges.begin() + 1;
    auto inner = layers.Range(next->begin, next->end);
    if (next->is_swapped) {
      made.push_back(std::make_shared<Swapped>(absl::StrCat("swapped_", number),
                                               std::move(inner)));
    } else {
      made.push_back(std::make_shared<Recompute>(
          absl::StrCat("recomputed_", number), std::move(inner)));
    }
    i = next++->end;
  }
  return std::make_unique<Sequence>(layers.name(), made);
}

}  // namespace paramd
