#include "tests/sim/balance_witness.h"

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paramd {

absl::Status BalanceWitness::Begins(uint32_t server, absl::Duration now) {
  ++begun_;
  const auto last = moved_.find(server);
  if (last != moved_.end() && now < last->second + rest_) {
    return absl::DataLossError(absl::StrCat(
        "server ", server, " is moved again after ",
        absl::FormatDuration(now - last->second), ", before it has rested"));
  }
  if (moving_.has_value()) {
    return absl::DataLossError(absl::StrCat(
        "server ", server, " is moved while server ", *moving_, " is"));
  }
  moving_ = server;
  moved_[server] = now;
  return absl::OkStatus();
}

absl::Status BalanceWitness::Noted(absl::string_view note, absl::Duration now) {
  if (absl::StartsWith(note, "an operator (") &&
      absl::StrContains(note, " scales the job ")) {
    moving_.reset();
  }
  if (absl::StartsWith(note, "rebalance has moved ") ||
      absl::StartsWith(note, "rebalance gives up ")) {
    done_ += absl::StartsWith(note, "rebalance has moved ");
    moving_.reset();
  }
  if (!absl::ConsumePrefix(&note, "rebalance moves ")) {
    return absl::OkStatus();
  }
  absl::ConsumePrefix(&note, "the backup of ");
  const std::vector<absl::string_view> words = absl::StrSplit(note, ' ');
  uint32_t server = 0;
  if (words.size() < 2 || words[0] != "server" ||
      !absl::SimpleAtoi(words[1], &server)) {
    return absl::InternalError(
        absl::StrCat("which server is moved is not said: ", note));
  }
  return Begins(server, now);
}

}  // namespace paramd
