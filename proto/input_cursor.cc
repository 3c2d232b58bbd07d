#include "proto/input_cursor.h"

#include <algorithm>

namespace paramd {

InputCursor::InputCursor(const v1::SavedInput& left, uint64_t examples,
                         uint32_t epochs)
    : left_(left), examples_(examples), epochs_(epochs) {
  for (v1::SavedInput::Range& range : *left_.mutable_remaining()) {
    range.set_end(std::min(range.end(), examples_));
    if (range.epoch() == 0 || range.epoch() > epochs_) range.set_end(0);
  }
  left_.set_next_epoch(std::max(left_.next_epoch(), uint32_t{1}));
  Normalize();
}

void InputCursor::Normalize() {
  auto* const remaining = left_.mutable_remaining();
  remaining->erase(
      std::remove_if(remaining->begin(), remaining->end(),
                     [](const auto& r) { return r.begin() >= r.end(); }),
      remaining->end());
  if (left_.next_offset() >= examples_ && left_.next_epoch() <= epochs_) {
    left_.set_next_epoch(left_.next_epoch() + 1);
    left_.set_next_offset(0);
  }
}

bool InputCursor::finished() const {
  return left_.remaining().empty() && left_.next_epoch() > epochs_;
}

InputCursor::Range InputCursor::Next(uint64_t most) const {
  Range range;
  if (left_.remaining().empty()) {
    range = {left_.next_epoch(), left_.next_offset(), examples_};
  } else {
    const v1::SavedInput::Range& first = left_.remaining(0);
    range = {first.epoch(), first.begin(), first.end()};
  }
  range.end = std::min(range.end, range.begin + most);
  return range;
}

void InputCursor::Advance(uint64_t most) {
  const uint64_t end = Next(most).end;
  if (left_.remaining().empty()) {
    left_.set_next_offset(end);
  } else {
    left_.mutable_remaining(0)->set_begin(end);
  }
  Normalize();
}

uint32_t InputCursor::epochs_finished() const {
  uint32_t finished = std::min(left_.next_epoch() - 1, epochs_);
  for (const v1::SavedInput::Range& range : left_.remaining()) {
    finished = std::min(finished, range.epoch() - 1);
  }
  return finished;
}

double InputCursor::epochs_done() const {
  if (examples_ == 0) return epochs_;
  uint64_t left = 0;
  for (const v1::SavedInput::Range& range : left_.remaining()) {
    left += range.end() - range.begin();
  }
  if (left_.next_epoch() <= epochs_) {
    left +=
        (epochs_ - left_.next_epoch() + 1) * examples_ - left_.next_offset();
  }
  return epochs_ - static_cast<double>(left) / static_cast<double>(examples_);
}

}  // namespace paramd
