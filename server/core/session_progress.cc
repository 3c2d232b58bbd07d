#include "server/core/session_progress.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "proto/refusal.h"

namespace paramd {
namespace {

uint64_t SizeOf(const v1::SavedInput& left) {
  uint64_t size = 0;
  for (const v1::SavedInput::Range& range : left.remaining()) {
    size += range.end() - range.begin();
  }
  return size;
}

// What was handed out, and of that what was used, only grows.
bool IsOlder(const v1::SavedInput& a, const v1::SavedInput& b) {
  return std::make_tuple(a.next_epoch(), a.next_offset(), SizeOf(b)) <
         std::make_tuple(b.next_epoch(), b.next_offset(), SizeOf(a));
}

}  // namespace

void SessionProgress::Begin(uint64_t blocks) {
  std::set<SessionKey> living = std::move(living_);
  *this = SessionProgress();
  living_ = std::move(living);
  blocks_ = blocks;
}

void SessionProgress::SetLiving(
    const std::map<uint32_t, v1::SessionId>& sessions) {
  living_.clear();
  for (const auto& [worker, generation] : sessions) {
    living_.insert({generation.term(), generation.counter(), worker});
  }
}

void SessionProgress::ForgetEnded() {
  auto oldest = sessions_.begin();
  while (sessions_.size() > kMostSessions && oldest != sessions_.end()) {
    oldest = living_.contains(oldest->first) ? std::next(oldest)
                                             : sessions_.erase(oldest);
  }
}

void SessionProgress::SetLeft(const v1::SavedInput& left) {
  if (has_left_ && IsOlder(left, left_)) return;
  left_ = left;
  has_left_ = true;
  for (auto it = used_.begin(); it != used_.end();) {
    const auto& [epoch, begin] = it->first;
    it = IsLeft(epoch, begin, it->second) ? std::next(it) : used_.erase(it);
  }
}

bool SessionProgress::IsLeft(uint32_t epoch, uint64_t begin,
                             uint64_t end) const {
  if (epoch > left_.next_epoch()) return true;
  if (epoch == left_.next_epoch() && end > left_.next_offset()) return true;
  return std::any_of(left_.remaining().begin(), left_.remaining().end(),
                     [&](const v1::SavedInput::Range& range) {
                       return range.epoch() == epoch && range.begin() < end &&
                              begin < range.end();
                     });
}

bool SessionProgress::Applied(const v1::PushRequest& request, uint64_t blocks,
                              const v1::ConfigurationVersion& backup) {
  const v1::Header& header = request.header();
  Session& session =
      sessions_[{header.generation().term(), header.generation().counter(),
                 header.worker()}];
  if (header.sequence() < session.sequence) return false;
  if (header.sequence() > session.sequence) {
    session.sequence = header.sequence();
    session.blocks = 0;
    session.backup = backup;
  }
  session.blocks += blocks;
  const bool is_whole = session.blocks == blocks_;
  const bool is_news =
      is_whole && blocks > 0 && !IsZero(backup) && session.backup != backup;
  if (is_whole) {
    session.whole = session.sequence;
    Use(request.epoch(), request.input_begin(), request.input_end());
  }
  ForgetEnded();
  return is_news;
}

void SessionProgress::Use(uint32_t epoch, uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto next = used_.lower_bound({epoch, begin});
  if (next != used_.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == epoch && before->second >= begin) {
      begin = before->first.second;
      end = std::max(end, before->second);
      next = used_.erase(before);
    }
  }
  while (next != used_.end() && next->first.first == epoch &&
         next->first.second <= end) {
    end = std::max(end, next->second);
    next = used_.erase(next);
  }
  if (used_.size() < kMostRanges) used_[{epoch, begin}] = end;
}

void SessionProgress::Fill(v1::RecallReply* reply) const {
  v1::ReplicateRequest::State state;
  Save(&state);
  if (state.has_input_left()) {
    reply->mutable_input_left()->Swap(state.mutable_input_left());
  }
  reply->mutable_input_used()->Swap(state.mutable_input_used());
  reply->mutable_sessions()->Swap(state.mutable_whole());
}

void SessionProgress::GoOnFrom(const v1::ReplicateRequest::State& state) {
  for (const v1::SavedSession& saved : state.whole()) {
    Session& session =
        sessions_[{saved.generation().term(), saved.generation().counter(),
                   saved.worker()}];
    if (saved.sequence() <= session.whole) continue;
    session.whole = saved.sequence();
    if (session.sequence > session.whole) continue;
    session.sequence = session.whole;
    session.blocks = blocks_;
  }
  if (state.has_input_left()) SetLeft(state.input_left());
  for (const v1::SavedInput::Range& used : state.input_used()) {
    Use(used.epoch(), used.begin(), used.end());
  }
}

void SessionProgress::Save(v1::ReplicateRequest::State* state) const {
  if (has_left_) *state->mutable_input_left() = left_;
  for (const auto& [place, end] : used_) {
    v1::SavedInput::Range* const range = state->add_input_used();
    range->set_epoch(place.first);
    range->set_begin(place.second);
    range->set_end(end);
  }
  for (const auto& [key, session] : sessions_) {
    v1::SavedSession* const saved = state->add_whole();
    saved->mutable_generation()->set_term(std::get<0>(key));
    saved->mutable_generation()->set_counter(std::get<1>(key));
    saved->set_worker(std::get<2>(key));
    saved->set_sequence(session.whole);
  }
}

}  // namespace paramd
