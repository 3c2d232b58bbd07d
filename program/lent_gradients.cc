#include "program/lent_gradients.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"

namespace paramd {

bool LentGradients::Begin(uint64_t number) {
  if (!loans_.empty() && loans_.back()->number == number) return true;
  const auto is_it = [&](const std::shared_ptr<Loan>& loan) {
    return loan->number == number;
  };
  if (std::any_of(loans_.begin(), loans_.end(), is_it)) return false;
  loans_.push_back(std::make_shared<Loan>());
  loans_.back()->number = number;
  return true;
}

Buffer LentGradients::Lend(absl::Span<const float> values) {
  loans_.back()->held.fetch_add(1, std::memory_order_relaxed);
  const auto release = [](void* context) {
    auto* const loan = static_cast<std::shared_ptr<Loan>*>(context);
    (*loan)->held.fetch_sub(1, std::memory_order_release);
    delete loan;
  };
  return Buffer::Foreign(AsBytes(values), release,
                         new std::shared_ptr<Loan>(loans_.back()));
}

std::vector<uint64_t> LentGradients::TakeReturned() {
  std::vector<uint64_t> returned;
  const auto kept = std::remove_if(
      loans_.begin(), loans_.end(), [&](const std::shared_ptr<Loan>& loan) {
        if (loan->held.load(std::memory_order_acquire) != 0) return false;
        returned.push_back(loan->number);
        return true;
      });
  loans_.erase(kept, loans_.end());
  return returned;
}

bool LentGradients::AwaitAll(absl::Duration patience) {
  const Time deadline = MonotonicNow() + patience;
  const auto is_held = [](const std::shared_ptr<Loan>& loan) {
    return loan->held.load(std::memory_order_acquire) != 0;
  };
  while (std::any_of(loans_.begin(), loans_.end(), is_held)) {
    if (MonotonicNow() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace paramd
