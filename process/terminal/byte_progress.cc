#include "process/terminal/byte_progress.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

#include "process/terminal/dashboard.h"

namespace paramd {

void ByteProgress::Begin(std::string what) {
  what_ = std::move(what);
  began_ = now_();
  shown_ = absl::nullopt;
}

void ByteProgress::Update(uint64_t bytes, uint64_t total) {
  if (!console_->in_place()) return;
  const Time now = now_();
  if (shown_.has_value() && now - *shown_ < absl::Milliseconds(100)) return;
  shown_ = now;
  const double seconds = absl::ToDoubleSeconds(now - began_);
  std::string line = absl::StrFormat(
      "%s: %d %% of %s", what_,
      total == 0 ? 100 : static_cast<int>(100.0 * bytes / total),
      BytesText(total));
  // Of the first moments nothing can be said.
  if (seconds >= 0.5) {
    absl::StrAppend(&line, ", ",
                    BytesText(static_cast<uint64_t>(bytes / seconds)), "/s");
  }
  console_->ShowBlock(absl::StrCat(line, "\n"));
}

}  // namespace paramd
