#include "server/core/memory_budget.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "proto/refusal.h"

namespace paramd {

absl::Status MemoryBudget::CheckParts(const std::vector<Part>& parts) const {
  uint64_t sum = 0;
  std::vector<std::string> terms;
  for (const Part& part : parts) {
    if (part.bytes == 0) continue;
    sum += part.bytes;
    terms.push_back(absl::StrCat(part.what, " ", BytesForPeople(part.bytes)));
  }
  if (limit_ == 0 || sum <= limit_) return absl::OkStatus();
  return Refuse(v1::Refusal::INVALID, "memory_limit_bytes",
                absl::StrCat(absl::StrJoin(terms, " + "), " = ",
                             BytesForPeople(sum), "; the limit is ",
                             BytesForPeople(limit_), " (memory_limit_bytes)"));
}

absl::Status MemoryBudget::RefuseNow(absl::string_view server,
                                     absl::string_view what, uint64_t more,
                                     absl::Duration retry_after) {
  ++refusals_;
  return RefuseForNow(
      v1::Refusal::OVER_LIMIT, server, retry_after,
      absl::StrCat("no memory for ", what, " on ", server, ": it needs ",
                   BytesForPeople(more), " more; ", BytesForPeople(used()),
                   " of ", BytesForPeople(limit_),
                   " are used (memory_limit_bytes)"));
}

std::string BytesForPeople(uint64_t bytes) {
  double number = static_cast<double>(bytes);
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  for (const char* const unit : {"kB", "MB", "GB"}) {
    number /= 1000;
    if (number < 999.95) return absl::StrFormat("%.1f %s", number, unit);
  }
  return absl::StrFormat("%.1f TB", number / 1000);
}

}  // namespace paramd
