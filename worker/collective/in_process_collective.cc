#include "worker/collective/in_process_collective.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/mutex.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// Where the members meet.
class Meeting {
 public:
  explicit Meeting(size_t size) : size_(size), spans_(size) {}

  size_t size() const { return size_; }

  // Returns when all have come.
  absl::Status Meet() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (aborted_) return Aborted();
    const uint64_t meeting = meetings_;
    if (++there_ == size_) {
      there_ = 0;
      ++meetings_;
      changed_.NotifyAll();
      return absl::OkStatus();
    }
    while (meetings_ == meeting && !aborted_) changed_.Wait(&mutex_);
    return meetings_ == meeting ? Aborted() : absl::OkStatus();
  }

  void Abort() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(&mutex_);
    aborted_ = true;
    changed_.NotifyAll();
  }

  // Of each member; written before one Meet, read after it.
  absl::Span<std::byte>& span(size_t rank) { return spans_[rank]; }

 private:
  static absl::Status Aborted() {
    return absl::UnavailableError("a replica of this process has ended");
  }

  const size_t size_;
  std::vector<absl::Span<std::byte>> spans_;
  Mutex mutex_;
  CondVar changed_;
  size_t there_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

template <typename T>
absl::Span<std::byte> BytesOf(absl::Span<T> values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

class InProcessCollective : public Collective {
 public:
  InProcessCollective(size_t rank, std::shared_ptr<Meeting> meeting)
      : rank_(rank), meeting_(std::move(meeting)) {}

  size_t rank() const override { return rank_; }
  size_t size() const override { return meeting_->size(); }

  absl::Status Sum(absl::Span<float> values) override {
    meeting_->span(rank_) = BytesOf(values);
    RETURN_IF_ERROR(meeting_->Meet());
    AddPart(values.size());
    return meeting_->Meet();
  }

  absl::Status Gather(absl::Span<const double> own,
                      absl::Span<double> all) override {
    std::copy(own.begin(), own.end(), all.begin() + rank_ * own.size());
    meeting_->span(rank_) = BytesOf(all);
    RETURN_IF_ERROR(meeting_->Meet());
    for (size_t r = 0; r < size(); ++r) {
      if (r == rank_) continue;
      const auto* const others =
          reinterpret_cast<const double*>(meeting_->span(r).data());
      std::copy_n(others + r * own.size(), own.size(),
                  all.begin() + r * own.size());
    }
    return meeting_->Meet();
  }

  void Abort() override { meeting_->Abort(); }

 private:
  // Elements [begin, end) of all members become their sum, in all of them.
  void AddPart(size_t count) {
    const size_t begin = count * rank_ / size();
    const size_t end = count * (rank_ + 1) / size();
    const auto of = [&](size_t r) {
      return reinterpret_cast<float*>(meeting_->span(r).data());
    };
    float* const first = of(0);
    for (size_t r = 1; r < size(); ++r) {
      const float* const other = of(r);
      for (size_t i = begin; i < end; ++i) first[i] += other[i];
    }
    for (size_t r = 1; r < size(); ++r) {
      std::copy(first + begin, first + end, of(r) + begin);
    }
  }

  const size_t rank_;
  const std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> MakeInProcessCollective(size_t size) {
  const auto meeting = std::make_shared<Meeting>(size);
  std::vector<std::unique_ptr<Collective>> members;
  for (size_t rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<InProcessCollective>(rank, meeting));
  }
  return members;
}

}  // namespace paramd
