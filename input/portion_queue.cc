#include "input/portion_queue.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {

PortionQueue::PortionQueue(uint64_t batch_size, size_t max_portions)
    : batch_size_(batch_size), max_portions_(max_portions) {
  CHECK(batch_size_ > 0, "a batch holds at least one example");
  CHECK(max_portions_ > 0, "at least one portion can wait");
}

absl::Status PortionQueue::Add(const Portion& portion) {
  CHECK(portion.begin < portion.end, "a portion is not empty");
  if (no_more_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "portion [", portion.begin, ", ", portion.end, ") of epoch ",
        portion.epoch, " came after the end of the input"));
  }
  if (portions_.size() >= max_portions_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(portions_.size(), " portions wait already; at most ",
                     max_portions_, " may"));
  }
  portions_.push_back(portion);
  examples_ += portion.size();
  return absl::OkStatus();
}

absl::optional<Portion> PortionQueue::Take() {
  if (portions_.empty()) return absl::nullopt;
  Portion& first = portions_.front();
  Portion range = first;
  range.end = range.begin + std::min(batch_size_, first.size());
  first.begin = range.end;
  if (first.begin == first.end) portions_.erase(portions_.begin());
  examples_ -= range.size();
  return range;
}

}  // namespace paramd
