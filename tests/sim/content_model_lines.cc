// What a ContentModel knows of servers that a new coordinator takes over, and
// of the pushes in a checkpoint.
#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "tests/sim/content_model.h"

namespace paramd {

uint64_t ContentModel::LineOf(uint64_t term) const {
  const auto line = lines_.find(term);
  return line == lines_.end() ? term : line->second;
}

bool ContentModel::IsLossy(const ServerLife& life) const {
  const auto content = contents_.find(life);
  return content != contents_.end() && content->second.lossy;
}

bool ContentModel::IsLossy(const v1::Configuration& configuration) const {
  return std::any_of(
      configuration.servers().begin(), configuration.servers().end(),
      [this](const v1::ServerMember& member) {
        return IsLossy({member.index(), NumberOf(member.generation())});
      });
}

ContentModel::ServerLife ContentModel::OwnerOf(
    uint32_t block, const v1::Configuration& configuration) const {
  const uint32_t owner =
      configuration.layout().slices(job_.blocks()[block].slice).server();
  return {owner, NumberOf(configuration.servers(owner).generation())};
}

bool ContentModel::IsWhole(PushIndex push,
                           const v1::Configuration& configuration) const {
  for (uint32_t b = 0; b < job_.blocks().size(); ++b) {
    const auto& [server, generation] = OwnerOf(b, configuration);
    if (!Contains(server, generation, b, push)) return false;
  }
  return true;
}

std::set<BatchPlace> ContentModel::BatchesIn(
    const v1::Configuration& configuration) const {
  std::set<BatchPlace> all(job_.batches().begin(), job_.batches().end());
  for (uint32_t b = 0; b < job_.blocks().size(); ++b) {
    const ServerLife owner = OwnerOf(b, configuration);
    if (IsLossy(owner)) continue;
    std::set<BatchPlace> in;
    const auto content = contents_.find(owner);
    if (content != contents_.end()) {
      for (const PushIndex push : content->second.blocks[b].pushes) {
        const BatchPlace& batch = ledger_.push(push).batch;
        if (all.contains(batch)) in.insert(batch);
      }
    }
    all = std::move(in);
  }
  return all;
}

absl::StatusOr<std::map<uint32_t, std::pair<Number, uint64_t>>>
ContentModel::NewestPushes(const v1::Manifest& manifest) const {
  std::map<uint32_t, std::pair<Number, uint64_t>> newest;
  for (const v1::ShardFile& file : manifest.files()) {
    ASSIGN_OR_RETURN(const Content* sealed, SealedContent(manifest, file));
    for (const SliceStory& slice : sealed->slices) {
      if (!slice.owned) continue;
      for (const auto& [worker, record] : slice.records) {
        if (record.sequence == 0) continue;
        auto& known = newest[worker];
        known = std::max(known, {record.generation, record.sequence});
      }
    }
  }
  return newest;
}

}  // namespace paramd
