#include "coordinator/core/input_holders.h"

#include <utility>

#include "coordinator/core/input_left.h"

namespace paramd {
namespace {

v1::SavedInput::Range RangeOf(const v1::Portion& portion) {
  v1::SavedInput::Range range;
  range.set_epoch(portion.epoch());
  range.set_begin(portion.begin());
  range.set_end(portion.end());
  return range;
}

}  // namespace

void InputHolders::Await(const v1::SavedInput& left,
                         std::set<uint32_t> workers) {
  left_ = left;
  used_.clear();
  awaited_ = std::move(workers);
  held_.clear();
}

void InputHolders::Told(uint32_t worker, const v1::HeldInput& held) {
  if (awaited_.erase(worker) == 0) return;
  v1::HeldInput& known = held_[worker];
  known.set_last_portion(held.last_portion());
  for (const v1::HeldInput::Part& part : held.parts()) {
    if (part.used_to() < part.portion().begin() ||
        part.portion().end() < part.used_to()) {
      continue;
    }
    *known.add_parts() = part;
    used_.push_back(RangeOf(part.portion()));
    used_.back().set_end(part.used_to());
  }
}

void InputHolders::Gone(uint32_t worker, const v1::WorkerCut* cut) {
  awaited_.erase(worker);
  const auto held = held_.find(worker);
  if (held == held_.end()) return;
  for (const v1::HeldInput::Part& part : held->second.parts()) {
    used_.push_back(RangeOf(part.portion()));
    used_.back().set_end(Portions::Left(part.portion(), cut).begin());
  }
  held_.erase(held);
}

// Of a part that is held, some may be in every block without the worker having
// heard it: its own push, or one of somebody who had that input before and is
// dead.
void InputHolders::HandOver(Portions* portions) const {
  InputLeft left(left_, portions->epochs());
  for (const v1::SavedInput::Range& used : used_) left.Remove(used);
  InputLeft free = left;
  for (const auto& [worker, held] : held_) {
    for (const v1::HeldInput::Part& part : held.parts()) {
      free.Remove(RangeOf(part.portion()));
    }
  }
  portions->Restart(free.Save(left_));
  for (const auto& [worker, held] : held_) {
    portions->SkipIds(held.last_portion());
    for (const v1::HeldInput::Part& part : held.parts()) {
      v1::Portion portion = part.portion();
      for (const auto& [begin, end] :
           left.Among(portion.epoch(), portion.begin(), portion.end())) {
        portion.set_begin(begin);
        portion.set_end(end);
        portions->Lease(worker, portion);
      }
    }
  }
}

}  // namespace paramd
