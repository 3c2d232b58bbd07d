#ifndef PARAMD_SERVER_CORE_CONTENT_PRUNING_H_
#define PARAMD_SERVER_CORE_CONTENT_PRUNING_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/types.pb.h"
#include "server/core/optimizer.h"
#include "server/core/slice.h"

namespace paramd {

// What all servers of a job decide together about pruning, with one threshold
// for all of them or by whole channels: each counts what it holds, and is told
// what becomes zero.
//
// Not thread-safe: lives inside a ShardContent, whose optimizer and slices
// outlive it.
class ContentPruning {
 public:
  ContentPruning(const Optimizer& optimizer, const std::vector<Slice*>& slices)
      : optimizer_(optimizer), slices_(slices) {}

  // The layer whose ChannelLead is `lead` has so many channels.
  void AddLayer(uint32_t lead, uint64_t channels) {
    channels_[lead] = channels;
  }

  // Of each entry of optimizer.pruning with one threshold for all: how large
  // the weights here are that it names, of blocks whose time it is, if there
  // are any. REQUIRES: the slices are filled.
  std::vector<v1::MagnitudeCounts> CountMagnitudes() const;
  using Thresholds = google::protobuf::RepeatedPtrField<v1::PruningThreshold>;
  // INVALID if one is of no such entry, or is no magnitude.
  absl::Status CheckThresholds(const Thresholds& thresholds) const;
  // From now on what is smaller becomes zero. REQUIRES: CheckThresholds lets
  // them pass.
  void SetThresholds(const Thresholds& thresholds);
  // 0 where nothing becomes zero by it.
  float ThresholdOf(const Slice& slice) const;

  // Of each layer whose channels are pruned: how large these are, by what lies
  // here in blocks whose time it is, if there are any. REQUIRES: the slices are
  // filled.
  std::vector<v1::ChannelSizes> CountChannels() const;
  using Channels = google::protobuf::RepeatedPtrField<v1::PrunedChannels>;
  // INVALID if some are of no such layer, or are not channels of it in their
  // order.
  absl::Status CheckChannels(const Channels& channels) const;
  // From now on they become zero. REQUIRES: CheckChannels lets them pass.
  void SetChannels(const Channels& channels);
  // By channel whether it becomes zero; empty where none does.
  absl::Span<const uint8_t> GoneChannelsOf(const Slice& slice) const;

 private:
  const Optimizer& optimizer_;
  const std::vector<Slice*>& slices_;
  std::vector<float> thresholds_;  // By entry of optimizer.pruning.
  // Both by ChannelLeads: how many channels there are, and by channel whether
  // it becomes zero.
  std::map<uint32_t, uint64_t> channels_;
  std::map<uint32_t, std::vector<uint8_t>> gone_channels_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_CONTENT_PRUNING_H_
