#include "server/core/lost_pushes.h"

#include <algorithm>
#include <set>
#include <string>


namespace paramd {
namespace {

// A slice by where it begins.
using Place = std::pair<std::string, uint64_t>;

uint64_t CountOf(const v1::LostPushes& lost) {
  return lost.to() + 1 - lost.from();
}

}  // namespace

void LostPushes::Begin(uint32_t server, const v1::Version& generation) {
  server_ = server;
  generation_ = generation;
  has_.clear();
  kept_.clear();
  long_gone_ = 0;
  heard_.clear();
}

void LostPushes::Restore(const v1::ReadSlicesResult& content,
                         absl::string_view run_id) {
  if (content.manifest().run_id() != run_id) return;
  std::set<Place> taken;
  for (const v1::ReadSlicesResult::Got& got : content.slices()) {
    for (const v1::ReadSlicesResult::Piece& piece : got.pieces()) {
      taken.insert({piece.saved().variable(), piece.saved().row_begin()});
      for (const v1::PushRecord& record : piece.saved().records()) {
        uint64_t& newest = has_[{record.worker(), record.generation()}];
        newest = std::max(newest, record.sequence());
      }
    }
  }
  for (const v1::ShardFile& file : content.manifest().files()) {
    const bool is_source = std::any_of(
        file.slices().begin(), file.slices().end(),
        [&taken](const v1::SavedSlice& slice) {
          return taken.count({slice.variable(), slice.row_begin()}) != 0;
        });
    if (!is_source) continue;
    for (const v1::LostPushes& lost : file.lost()) Keep(lost);
  }
}

void LostPushes::Keep(const v1::LostPushes& lost) {
  if (lost.to() < lost.from()) return;
  if (IsZero(lost.generation())) {
    long_gone_ += CountOf(lost);
    return;
  }
  // Servers that took slices of one file keep the same of it.
  const auto is_same = [&lost](const v1::LostPushes& kept) {
    return kept.worker() == lost.worker() && kept.from() == lost.from() &&
           kept.server() == lost.server() &&
           kept.generation() == lost.generation() &&
           kept.server_generation() == lost.server_generation();
  };
  if (std::any_of(kept_.begin(), kept_.end(), is_same)) return;
  uint64_t& newest = has_[{lost.worker(), lost.generation()}];
  newest = std::max(newest, lost.to());
  if (kept_.size() == kMostKept) {
    long_gone_ += CountOf(kept_.front());
    kept_.erase(kept_.begin());
  }
  kept_.push_back(lost);
}

absl::optional<v1::LostPushes> LostPushes::Hear(uint32_t worker,
                                                const v1::Version& generation,
                                                uint64_t acknowledged) {
  if (!(generation < generation_)) return absl::nullopt;
  const auto [heard, is_first] =
      heard_.try_emplace(Session(worker, generation));
  if (!is_first) return absl::nullopt;
  const auto restored = has_.find(heard->first);
  const uint64_t newest = restored == has_.end() ? 0 : restored->second;
  v1::LostPushes& lost = heard->second;
  lost.set_worker(worker);
  *lost.mutable_generation() = generation;
  lost.set_from(newest + 1);
  lost.set_to(std::max(newest, acknowledged));
  lost.set_server(server_);
  *lost.mutable_server_generation() = generation_;
  if (CountOf(lost) == 0) return absl::nullopt;
  return lost;
}

void LostPushes::Save(List* lost) const {
  if (long_gone_ > 0) {
    v1::LostPushes* const gone = lost->Add();
    gone->set_from(1);
    gone->set_to(long_gone_);
    gone->set_server(server_);
  }
  for (const v1::LostPushes& kept : kept_) *lost->Add() = kept;
  for (const auto& [session, heard] : heard_) *lost->Add() = heard;
}

uint64_t LostPushes::total() const {
  uint64_t total = long_gone_;
  for (const v1::LostPushes& kept : kept_) total += CountOf(kept);
  for (const auto& [session, heard] : heard_) total += CountOf(heard);
  return total;
}

}  // namespace paramd
