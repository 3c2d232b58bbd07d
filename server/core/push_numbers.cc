#include "server/core/push_numbers.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {

void PushNumbers::Begin(const v1::ServerLife& generation) {
  life_ = generation;
  sessions_.clear();
}

void PushNumbers::SetLiving(const std::map<uint32_t, v1::SessionId>& sessions) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    const auto living = sessions.find(it->first);
    const bool lives =
        living != sessions.end() && living->second == it->second.generation;
    it = lives ? std::next(it) : sessions_.erase(it);
  }
}

absl::Status PushNumbers::Hear(const v1::Header& header) {
  const uint64_t sequence = header.sequence();
  const auto known = sessions_.find(header.worker());
  const bool is_known = known != sessions_.end() &&
                        known->second.generation == header.generation();
  const uint64_t newest = is_known ? known->second.newest : 0;
  const bool may_be_anywhere =
      !is_known && GivenBefore(header.generation(), life_);
  if (!may_be_anywhere && sequence > newest && sequence - newest > kMostAhead) {
    const std::string name = WorkerName(header.worker(), header.generation());
    return Refuse(
        v1::Refusal::INVALID, name,
        absl::StrCat("push ", sequence, " of ", name,
                     "; the newest that came is ", newest, ", and at most ",
                     kMostAhead, " can be missing"));
  }
  sessions_[header.worker()] = {header.generation(),
                                std::max(newest, sequence)};
  return absl::OkStatus();
}

}  // namespace paramd
