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

void LostPushes::Begin(uint32_t server, const v1::ServerLife& generation) {
  server_ = server;
  generation_ = generation;
  has_.clear();
  kept_.clear();
  known_.clear();
  nameless_.clear();
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

void LostPushes::TakeOver(uint32_t server, const v1::ServerLife& generation,
                          const std::vector<Slice*>& slices,
                          const List& listed) {
  Begin(server, generation);
  for (const Slice* const slice : slices) {
    v1::SavedSlice saved;
    slice->applied().Save(&saved);
    for (const v1::PushRecord& record : saved.records()) {
      uint64_t& newest = has_[{record.worker(), record.generation()}];
      newest = std::max(newest, record.sequence());
    }
  }
  for (const v1::LostPushes& lost : listed) Keep(lost);
}

// What is read in windows, or by several slices of one file, comes again.
void LostPushes::Keep(const v1::LostPushes& lost) {
  if (lost.to() < lost.from()) return;
  if (IsZero(lost.generation())) {
    nameless_[lost.server()] = CountOf(lost);
    return;
  }
  const v1::SessionId& generation = lost.generation();
  const v1::ServerLife& life = lost.server_generation();
  const Key key(lost.worker(), generation.term(), generation.counter(),
                lost.from(), lost.server(), life.term(), life.counter());
  if (!known_.insert(key).second) return;
  uint64_t& newest = has_[{lost.worker(), lost.generation()}];
  newest = std::max(newest, lost.to());
  kept_.push_back(lost);
}

uint64_t LostPushes::Nameless(size_t dropped) const {
  uint64_t pushes = 0;
  for (const auto& [server, count] : nameless_) pushes += count;
  for (size_t i = 0; i < dropped; ++i) pushes += CountOf(kept_[i]);
  return pushes;
}

absl::optional<v1::LostPushes> LostPushes::Hear(uint32_t worker,
                                                const v1::SessionId& generation,
                                                uint64_t acknowledged) {
  if (!GivenBefore(generation, generation_)) return absl::nullopt;
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
  const size_t dropped = kept_.size() - std::min(kept_.size(), kMostKept);
  const uint64_t nameless = Nameless(dropped);
  if (nameless > 0) {
    v1::LostPushes* const gone = lost->Add();
    gone->set_from(1);
    gone->set_to(nameless);
    gone->set_server(server_);
  }
  for (size_t i = dropped; i < kept_.size(); ++i) *lost->Add() = kept_[i];
  for (const auto& [session, heard] : heard_) *lost->Add() = heard;
}

uint64_t LostPushes::total() const {
  uint64_t total = Nameless(kept_.size());
  for (const auto& [session, heard] : heard_) total += CountOf(heard);
  return total;
}

}  // namespace paramd
