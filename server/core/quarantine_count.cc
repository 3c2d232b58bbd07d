#include "server/core/quarantine_count.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/refusal.h"

namespace paramd {

void QuarantineCount::Add(const v1::Header& header,
                          absl::string_view sentence) {
  Entry& entry = entries_[header.worker()];
  if (entry.pushes > 0 && entry.sequence == header.sequence() &&
      entry.generation == header.generation()) {
    return;
  }
  entry.generation = header.generation();
  entry.sequence = header.sequence();
  const uint64_t times = ++entry.pushes;
  if ((times & (times - 1)) != 0) return;
  notes_.push_back(absl::StrCat("push ", header.sequence(), " of worker-",
                                header.worker(), " refused (", times,
                                " of that worker so far): ", sentence));
}

uint64_t QuarantineCount::pushes(uint32_t worker) const {
  const auto entry = entries_.find(worker);
  return entry == entries_.end() ? 0 : entry->second.pushes;
}

uint64_t QuarantineCount::total() const {
  uint64_t total = 0;
  for (const auto& [worker, entry] : entries_) total += entry.pushes;
  return total;
}

std::vector<std::string> QuarantineCount::TakeNotes() {
  return std::exchange(notes_, {});
}

}  // namespace paramd
