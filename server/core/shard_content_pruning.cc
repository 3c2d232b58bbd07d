#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "config/magnitudes.h"
#include "proto/refusal.h"
#include "server/core/shard_content.h"

namespace paramd {

std::vector<v1::MagnitudeCounts> ShardContent::CountMagnitudes() const {
  std::vector<v1::MagnitudeCounts> counted;
  const std::vector<Pruning>& pruning = optimizer_.pruning();
  for (size_t p = 0; p < pruning.size(); ++p) {
    if (!pruning[p].is_global()) continue;
    absl::optional<Magnitudes> magnitudes;
    double share = 0;
    for (const Slice* const slice : owned_) {
      if (slice->options().pruning != static_cast<int>(p)) continue;
      for (int b = 0; b < slice->block_count(); ++b) {
        const Block& block = slice->block(b);
        if (!pruning[p].IsTime(block.applied())) continue;
        if (!magnitudes.has_value()) magnitudes.emplace();
        magnitudes->AddValues(absl::MakeConstSpan(
            reinterpret_cast<const float*>(block.values().bytes().data()),
            block.elements()));
        share = std::max(share, pruning[p].Sparsity(block.applied()));
      }
    }
    if (!magnitudes.has_value()) continue;
    v1::MagnitudeCounts& counts = counted.emplace_back();
    counts.set_pruning(static_cast<uint32_t>(p));
    counts.set_share(share);
    magnitudes->Fill(&counts);
  }
  return counted;
}

absl::Status ShardContent::CheckThresholds(const Thresholds& thresholds) const {
  const std::vector<Pruning>& pruning = optimizer_.pruning();
  for (const v1::PruningThreshold& threshold : thresholds) {
    const std::string entity =
        absl::StrCat("optimizer.pruning[", threshold.pruning(), "]");
    if (threshold.pruning() >= pruning.size() ||
        !pruning[threshold.pruning()].is_global()) {
      return Invalid(entity,
                     absl::StrCat(entity, " has no threshold for all servers"));
    }
    if (!(threshold.magnitude() >= 0)) {
      return Invalid(entity, absl::StrCat("the threshold of ", entity,
                                          " is a magnitude, at least 0; found ",
                                          threshold.magnitude()));
    }
  }
  return absl::OkStatus();
}

void ShardContent::SetThresholds(const Thresholds& thresholds) {
  thresholds_.assign(optimizer_.pruning().size(), 0);
  for (const v1::PruningThreshold& threshold : thresholds) {
    thresholds_[threshold.pruning()] = threshold.magnitude();
  }
}

float ShardContent::ThresholdOf(const Slice& slice) const {
  const auto pruning = slice.options().pruning;
  if (!pruning.has_value() || thresholds_.empty()) return 0;
  return thresholds_[static_cast<size_t>(*pruning)];
}

}  // namespace paramd
