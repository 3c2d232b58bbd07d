#include "server/core/content_pruning.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "config/channel_norms.h"
#include "config/magnitudes.h"
#include "proto/refusal.h"

namespace paramd {

std::vector<v1::MagnitudeCounts> ContentPruning::CountMagnitudes() const {
  std::vector<v1::MagnitudeCounts> counted;
  const std::vector<Pruning>& pruning = optimizer_.pruning();
  for (size_t p = 0; p < pruning.size(); ++p) {
    if (!pruning[p].is_global()) continue;
    absl::optional<Magnitudes> magnitudes;
    double share = 0;
    for (const Slice* const slice : slices_) {
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

absl::Status ContentPruning::CheckThresholds(
    const Thresholds& thresholds) const {
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

void ContentPruning::SetThresholds(const Thresholds& thresholds) {
  thresholds_.assign(optimizer_.pruning().size(), 0);
  for (const v1::PruningThreshold& threshold : thresholds) {
    thresholds_[threshold.pruning()] = threshold.magnitude();
  }
}

std::vector<v1::ChannelSizes> ContentPruning::CountChannels() const {
  struct Counted {
    ChannelNorms norms;
    double share = 0;
  };
  std::map<uint32_t, Counted> counted;  // By ChannelLeads.
  for (const Slice* const slice : slices_) {
    const auto lead = slice->options().channel_lead;
    if (!lead.has_value()) continue;
    const Pruning& pruning =
        optimizer_.pruning()[static_cast<size_t>(*slice->options().pruning)];
    for (int b = 0; b < slice->block_count(); ++b) {
      const Block& block = slice->block(b);
      if (!pruning.IsTime(block.applied())) continue;
      Counted& of_layer =
          counted.try_emplace(*lead, Counted{ChannelNorms(channels_.at(*lead))})
              .first->second;
      of_layer.norms.AddValues(
          absl::MakeConstSpan(
              reinterpret_cast<const float*>(block.values().bytes().data()),
              block.elements()),
          slice->block_begin(b));
      of_layer.share =
          std::max(of_layer.share, pruning.Sparsity(block.applied()));
    }
  }
  std::vector<v1::ChannelSizes> sizes;
  for (const auto& [lead, of_layer] : counted) {
    v1::ChannelSizes& one = sizes.emplace_back();
    one.set_variable(lead);
    one.set_share(of_layer.share);
    of_layer.norms.Fill(&one);
  }
  return sizes;
}

absl::Status ContentPruning::CheckChannels(const Channels& channels) const {
  for (const v1::PrunedChannels& pruned : channels) {
    const std::string entity = absl::StrCat("variable ", pruned.variable());
    const auto known = channels_.find(pruned.variable());
    if (known == channels_.end()) {
      return Invalid(entity,
                     absl::StrCat("channels of ", entity,
                                  " become zero, which are not pruned"));
    }
    uint64_t least = 0;
    for (const uint32_t channel : pruned.channels()) {
      if (channel < least || channel >= known->second) {
        return Invalid(
            entity,
            absl::StrCat("channels of ", entity, " are not ascending below ",
                         known->second, "; found ", channel));
      }
      least = uint64_t{channel} + 1;
    }
  }
  return absl::OkStatus();
}

void ContentPruning::SetChannels(const Channels& channels) {
  gone_channels_.clear();
  for (const v1::PrunedChannels& pruned : channels) {
    std::vector<uint8_t>& gone = gone_channels_[pruned.variable()];
    gone.resize(channels_.at(pruned.variable()));
    for (const uint32_t channel : pruned.channels()) gone[channel] = 1;
  }
}

absl::Span<const uint8_t> ContentPruning::GoneChannelsOf(
    const Slice& slice) const {
  const auto lead = slice.options().channel_lead;
  if (!lead.has_value()) return {};
  const auto gone = gone_channels_.find(*lead);
  if (gone == gone_channels_.end()) return {};
  return gone->second;
}

float ContentPruning::ThresholdOf(const Slice& slice) const {
  const auto pruning = slice.options().pruning;
  if (!pruning.has_value() || thresholds_.empty()) return 0;
  return thresholds_[static_cast<size_t>(*pruning)];
}

}  // namespace paramd
