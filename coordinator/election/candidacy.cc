#include "coordinator/election/candidacy.h"

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace paramd {

std::string ElectedChief::ToText() const {
  return absl::StrCat(address, " ", absl::Hex(incarnation, absl::kZeroPad16),
                      " ", absl::Hex(run, absl::kZeroPad16));
}

absl::optional<ElectedChief> ElectedChief::FromText(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  ElectedChief chief;
  if (parts.size() != 3 || parts[0].empty() || parts[0].size() > 300 ||
      !absl::SimpleHexAtoi(parts[1], &chief.incarnation) ||
      !absl::SimpleHexAtoi(parts[2], &chief.run)) {
    return absl::nullopt;
  }
  chief.address = std::string(parts[0]);
  return chief;
}

absl::optional<ChiefHolder> HolderOf(const absl::optional<EtcdKey>& key,
                                     int64_t own) {
  if (!key.has_value()) return absl::nullopt;
  ChiefHolder holder;
  holder.text = key->value;
  holder.token = key->create_revision;
  holder.is_self = own != 0 && key->lease == own;
  holder.is_alive = true;  // Its lease is.
  return holder;
}

CandidateMove NextMove(const Candidate& candidate,
                       const absl::optional<ChiefHolder>& found) {
  if (!found.has_value()) return CandidateMove::kTake;
  if (found->is_self) return CandidateMove::kIsElected;
  const auto chief = ElectedChief::FromText(found->text);
  if (!chief.has_value()) return CandidateMove::kNotOurs;
  if (candidate.replaces != 0 && chief->incarnation == candidate.replaces) {
    return CandidateMove::kRemove;
  }
  // One that has died may have been of a run before this one.
  return found->is_alive && chief->run != candidate.self.run
             ? CandidateMove::kOtherRun
             : CandidateMove::kStandBy;
}

bool FollowedChief::Found(const absl::optional<ChiefHolder>& holder) {
  const auto chief =
      holder.has_value() ? ElectedChief::FromText(holder->text) : absl::nullopt;
  if (!chief.has_value()) return false;
  return std::exchange(address_, chief->address) != chief->address;
}

}  // namespace paramd
