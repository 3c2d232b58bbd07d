#include "coordinator/core/portions.h"

#include <algorithm>
#include <utility>

namespace paramd {

// Epochs count from 1. An epoch is in `unfinished_` until all of it is used.
Portions::Portions(Epochs epochs, uint64_t size)
    : epochs_(std::move(epochs)), size_(size) {
  for (uint32_t epoch = 1; epoch <= epochs_.number(); ++epoch) {
    unfinished_[epoch] = epochs_.ExamplesOf(epoch);
  }
}

bool Portions::OnFound(const v1::EpochFiles& found) {
  if (!epochs_.Add(found)) return false;
  if (!IsEnd(found)) unfinished_[found.epoch()] = found.examples();
  return true;
}

bool Portions::all_begun() const {
  return next_epoch_ > epochs_.number() ||
         (next_epoch_ == epochs_.number() && next_offset_ > 0);
}

void Portions::Restart(const v1::SavedInput& saved) {
  again_.clear();
  leases_.clear();
  held_.clear();
  for (uint32_t epoch = 1; epoch <= epochs_.number(); ++epoch) {
    unfinished_[epoch] = epochs_.ExamplesOf(epoch);
  }
  Restore(saved);
}

void Portions::Restore(const v1::SavedInput& saved) {
  next_epoch_ = std::max(saved.next_epoch(), uint32_t{1});
  next_offset_ = saved.next_offset();
  for (auto& [epoch, left] : unfinished_) {
    if (epoch < next_epoch_) left = 0;
    if (epoch == next_epoch_) left -= std::min(left, next_offset_);
  }
  for (const v1::SavedInput::Range& range : saved.remaining()) {
    unfinished_[range.epoch()] += range.end() - range.begin();
    for (uint64_t begin = range.begin(); begin < range.end(); begin += size_) {
      v1::Portion& portion = again_.emplace_back();
      portion.set_id(next_id_++);
      portion.set_epoch(range.epoch());
      portion.set_begin(begin);
      portion.set_end(std::min(begin + size_, range.end()));
    }
  }
  for (auto it = unfinished_.begin(); it != unfinished_.end();) {
    it = it->second == 0 ? unfinished_.erase(it) : std::next(it);
  }
}

absl::optional<v1::Portion> Portions::Take(uint32_t worker) {
  v1::Portion portion;
  if (!again_.empty()) {
    portion = again_.front();
    again_.pop_front();
  } else if (next_epoch_ <= epochs_.number()) {
    const uint64_t examples = epochs_.ExamplesOf(next_epoch_);
    portion.set_epoch(next_epoch_);
    portion.set_begin(next_offset_);
    portion.set_end(std::min(examples, next_offset_ + size_));
    next_offset_ = portion.end();
    if (next_offset_ == examples) {
      ++next_epoch_;
      next_offset_ = 0;
    }
  } else {
    return absl::nullopt;
  }
  // A new id for each lease: one worker's ids grow in the order of use.
  portion.set_id(next_id_++);
  AddLease(worker, portion);
  return portion;
}

void Portions::AddLease(uint32_t worker, const v1::Portion& portion) {
  const auto lease = leases_.emplace(portion.id(), Leased{worker, portion});
  held_.emplace(std::make_pair(worker, portion.id()), lease);
}

Portions::Held::iterator Portions::EndLease(Held::iterator held) {
  leases_.erase(held->second);
  return held_.erase(held);
}

void Portions::Lease(uint32_t worker, const v1::Portion& portion) {
  SkipIds(portion.id());
  AddLease(worker, portion);
  unfinished_[portion.epoch()] += portion.end() - portion.begin();
}

std::vector<v1::Portion> Portions::Finish(uint32_t worker, uint64_t id) {
  std::vector<v1::Portion> finished;
  const auto end = held_.upper_bound({worker, id});
  for (auto it = held_.lower_bound({worker, 0}); it != end;) {
    const v1::Portion& portion = it->second->second.portion;
    MarkUsed(portion);
    finished.push_back(portion);
    it = EndLease(it);
  }
  return finished;
}

std::vector<v1::Portion> Portions::Return(uint32_t worker,
                                          const v1::WorkerCut* cut) {
  std::vector<v1::Portion> all_used;
  for (auto it = held_.lower_bound({worker, 0});
       it != held_.end() && it->first.first == worker;) {
    v1::Portion used = it->second->second.portion;
    const v1::Portion left = Left(used, cut);
    used.set_end(left.begin());
    MarkUsed(used);
    if (used.begin() < used.end()) all_used.push_back(used);
    if (left.begin() < left.end()) again_.push_back(left);
    it = EndLease(it);
  }
  return all_used;
}

v1::Portion Portions::Left(const v1::Portion& leased,
                           const v1::WorkerCut* cut) {
  v1::Portion left = leased;
  if (cut == nullptr || leased.id() > cut->last_portion()) return left;
  left.set_begin(left.end());
  for (const v1::Portion& part : cut->remaining()) {
    if (part.id() != leased.id()) continue;
    left.set_begin(std::clamp(part.begin(), leased.begin(), leased.end()));
  }
  return left;
}

void Portions::MarkUsed(const v1::Portion& portion) {
  const auto epoch = unfinished_.find(portion.epoch());
  if (epoch == unfinished_.end() || portion.begin() >= portion.end()) return;
  epoch->second -= std::min(epoch->second, portion.end() - portion.begin());
  if (epoch->second == 0) unfinished_.erase(epoch);
}

uint32_t Portions::epochs_finished() const {
  return unfinished_.empty() ? epochs_.number()
                             : unfinished_.begin()->first - 1;
}

double Portions::epochs_done() const {
  double left = 0;
  for (const auto& [epoch, examples] : unfinished_) {
    left += static_cast<double>(examples) /
            static_cast<double>(epochs_.ExamplesOf(epoch));
  }
  return epochs_.number() - left;
}

v1::SavedInput Portions::Save(
    const std::map<uint32_t, v1::WorkerCut>& cuts) const {
  v1::SavedInput saved;
  saved.set_next_epoch(next_epoch_);
  saved.set_next_offset(next_offset_);
  for (const v1::Portion& portion : again_) AddLeft(portion, &saved);
  for (const auto& [id, lease] : leases_) {
    const auto cut = cuts.find(lease.worker);
    AddLeft(Left(lease.portion, cut == cuts.end() ? nullptr : &cut->second),
            &saved);
  }
  return saved;
}

void Portions::AddLeft(const v1::Portion& portion, v1::SavedInput* saved) {
  if (portion.begin() >= portion.end()) return;
  v1::SavedInput::Range* range = saved->add_remaining();
  range->set_epoch(portion.epoch());
  range->set_begin(portion.begin());
  range->set_end(portion.end());
}

}  // namespace paramd
