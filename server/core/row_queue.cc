#include "server/core/row_queue.h"

#include <algorithm>
#include <tuple>

#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

// Of a block's rows, so many are found at a time.
constexpr size_t kCandidateShare = 16;

size_t MostCandidates(size_t rows) { return rows / kCandidateShare + 1; }

}  // namespace

uint64_t RowQueue::MostBytes(size_t rows) {
  return MostCandidates(rows) * sizeof(Candidate);
}

// Uses only ever rise. So what was not among the first when they were found is
// not before one of them that has not been used since.
uint32_t RowQueue::Take(uint64_t least, uint64_t now,
                        absl::Span<const uint64_t> used) {
  for (bool found = false;; found = true) {
    while (next_ < candidates_.size()) {
      const Candidate candidate = candidates_[next_++];
      if (used[candidate.row] == candidate.used) return candidate.row;
    }
    if (found) return kNoRow;
    Find(least, now, used);
  }
}

void RowQueue::Find(uint64_t least, uint64_t now,
                    absl::Span<const uint64_t> used) {
  candidates_.clear();
  next_ = 0;
  for (uint32_t row = 0; row < used.size(); ++row) {
    if (used[row] < least || used[row] >= now) continue;
    candidates_.push_back({used[row], row});
  }
  bound_ = {now, 0};
  const size_t wanted = MostCandidates(used.size());
  if (candidates_.size() > wanted) {
    std::nth_element(candidates_.begin(), candidates_.begin() + wanted,
                     candidates_.end(), IsEarlier);
    bound_ = candidates_[wanted];
    candidates_.resize(wanted);
    candidates_.shrink_to_fit();
  }
  std::sort(candidates_.begin(), candidates_.end(), IsEarlier);
}

// It joins the candidates, unless rows that are no candidates come before it.
void RowQueue::Offer(uint64_t used, uint32_t row, size_t rows) {
  const Candidate offered = {used, row};
  if (!IsEarlier(offered, bound_)) return;
  candidates_.erase(candidates_.begin(),
                    candidates_.begin() + static_cast<ptrdiff_t>(next_));
  next_ = 0;
  candidates_.insert(std::upper_bound(candidates_.begin(), candidates_.end(),
                                      offered, IsEarlier),
                     offered);
  // No more than Find finds, however many are offered.
  if (candidates_.size() <= MostCandidates(rows)) return;
  bound_ = candidates_.back();
  candidates_.pop_back();
}

bool RowQueue::IsEarlier(const Candidate& a, const Candidate& b) {
  return std::tie(a.used, a.row) < std::tie(b.used, b.row);
}

}  // namespace paramd
