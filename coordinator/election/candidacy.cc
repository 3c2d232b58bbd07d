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

CandidateMove NextMove(const Candidate& candidate,
                       const absl::optional<LeaderKey>& found) {
  if (!found.has_value()) return CandidateMove::kCreate;
  if (candidate.lease != 0 && found->lease == candidate.lease) {
    return CandidateMove::kIsElected;
  }
  const auto chief = ElectedChief::FromText(found->value);
  if (!chief.has_value()) return CandidateMove::kNotOurs;
  if (candidate.replaces != 0 && chief->incarnation == candidate.replaces) {
    return CandidateMove::kRemove;
  }
  return chief->run == candidate.self.run ? CandidateMove::kStandBy
                                          : CandidateMove::kOtherRun;
}

bool FollowedChief::Found(const absl::optional<LeaderKey>& key) {
  const auto chief =
      key.has_value() ? ElectedChief::FromText(key->value) : absl::nullopt;
  if (!chief.has_value()) return false;
  return std::exchange(address_, chief->address) != chief->address;
}

}  // namespace paramd
