#include "worker/strategy/sync_cursor.h"

#include <algorithm>

#include "proto/refusal.h"

namespace paramd {

bool SyncCursor::Configure(const v1::Contributors& contributors,
                           const v1::SessionId& generation) {
  if (!(contributors.version() > contributors_.version())) return false;
  contributors_ = contributors;
  const auto& workers = contributors_.workers();
  const auto self = std::find(workers.begin(), workers.end(), options_.worker);
  contributes_ =
      self != workers.end() && GivenBefore(generation, contributors_.version());
  rank_ = self - workers.begin();
  step_ = contributors_.first_step();
  input_ =
      InputCursor(contributors_.input(), options_.examples, options_.epochs);
  return true;
}

bool SyncCursor::finished() const { return step_ > 0 && input_.finished(); }

SyncCursor::Share SyncCursor::share() const {
  Share share;
  share.range = input_.Next(StepExamples());
  share.step_examples = share.range.size();
  const uint64_t end = share.range.end;
  share.range.begin = std::min(end, share.range.begin + rank_ * options_.batch);
  share.range.end = std::min(end, share.range.begin + options_.batch);
  return share;
}

InputCursor::Range SyncCursor::next_range() const {
  SyncCursor next = *this;
  next.Decided(step_);
  return next.finished() ? InputCursor::Range() : next.share().range;
}

void SyncCursor::Decided(uint64_t step) {
  for (; step_ <= step && !input_.finished(); ++step_) {
    input_.Advance(StepExamples());
  }
}

}  // namespace paramd
