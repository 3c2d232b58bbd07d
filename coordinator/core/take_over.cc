#include "coordinator/core/take_over.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"

#include "coordinator/core/input_left.h"
#include "proto/refusal.h"

namespace paramd {

void TakeOver::Recalled(uint32_t server, const v1::RecallReply& reply) {
  replies_[server] = reply;
}

bool TakeOver::AnyHoldsSlices() const {
  return std::any_of(replies_.begin(), replies_.end(),
                     [](const auto& reply) { return reply.second.filled(); });
}

std::string TakeOver::WhyNot(const v1::Layout& layout,
                             const Newest& newest) const {
  if (replies_.empty()) return "no server was asked what it holds";
  const std::string wanted = layout.SerializeAsString();
  for (const auto& [server, reply] : replies_) {
    if (!reply.filled() || !reply.has_input_left() ||
        Member(server) == nullptr) {
      return absl::StrCat("ps-", server, " is empty");
    }
    if (reply.configuration().layout().SerializeAsString() != wanted) {
      return absl::StrCat("ps-", server, " has another layout");
    }
  }
  if ((newest.manifest != nullptr && WroteIt(*newest.manifest)) ||
      BeganTogetherWith(newest.path)) {
    return "";
  }
  return "a server was restored since the newest checkpoint";
}

const v1::ServerMember* TakeOver::Member(uint32_t server) const {
  for (const v1::ServerMember& member :
       replies_.at(server).configuration().servers()) {
    if (member.index() == server) return &member;
  }
  return nullptr;
}

bool TakeOver::WroteIt(const v1::Manifest& manifest) const {
  if (manifest.files_size() != static_cast<int>(replies_.size())) return false;
  return std::all_of(manifest.files().begin(), manifest.files().end(),
                     [this](const v1::ShardFile& file) {
                       const uint32_t server = file.server();
                       return replies_.contains(server) &&
                              !(file.server_generation() < filled(server)) &&
                              !(generation(server) < file.server_generation());
                     });
}

// The first generations of a term are those of a start; one that is restored by
// itself gets a later one.
bool TakeOver::BeganTogetherWith(const std::string& path) const {
  const uint64_t term = filled(0).term();
  return std::all_of(replies_.begin(), replies_.end(), [&](const auto& r) {
    const uint32_t server = r.first;
    return filled(server).term() == term &&
           filled(server).counter() == server + 1 &&
           Member(server)->restore_directory() == path;
  });
}

const v1::ServerLife& TakeOver::generation(uint32_t server) const {
  return replies_.at(server).generation();
}

const v1::ServerLife& TakeOver::filled(uint32_t server) const {
  const v1::ServerLife& filled = Member(server)->filled();
  return IsZero(filled) ? generation(server) : filled;
}

std::string TakeOver::restore_directory(uint32_t server) const {
  return Member(server)->restore_directory();
}

bool TakeOver::Owns(uint32_t server) const {
  const v1::Layout& layout = replies_.at(server).configuration().layout();
  return std::any_of(
      layout.slices().begin(), layout.slices().end(),
      [server](const v1::Slice& slice) { return slice.server() == server; });
}

v1::SavedInput TakeOver::InputLeft(const Epochs& epochs) const {
  using Left = paramd::InputLeft;
  // What workers have reported as used some servers were told, or all.
  Left reported(v1::SavedInput(), epochs);
  v1::SavedInput known;
  for (const auto& [server, reply] : replies_) {
    const v1::SavedInput& told = reply.input_left();
    reported.Intersect(Left(told, epochs));
    if (std::make_tuple(known.next_epoch(), known.next_offset()) <
        std::make_tuple(told.next_epoch(), told.next_offset())) {
      known = told;
    }
  }
  Left left(epochs);
  for (const auto& [server, reply] : replies_) {
    if (!Owns(server)) continue;
    Left unused = reported;
    for (const v1::SavedInput::Range& used : reply.input_used()) {
      unused.Remove(used);
    }
    left.Add(unused);
  }
  return left.Save(known);
}

std::map<uint32_t, v1::WorkerMember> TakeOver::SessionsThatGoOn(
    v1::Consistency::Mode mode,
    const std::map<uint32_t, v1::SessionId>& fenced) const {
  const v1::Configuration* newest = nullptr;
  for (const auto& [server, reply] : replies_) {
    if (newest == nullptr ||
        newest->version() < reply.configuration().version()) {
      newest = &reply.configuration();
    }
  }
  std::map<uint32_t, v1::WorkerMember> sessions;
  if (newest->consistency().mode() != mode) return sessions;
  for (const v1::WorkerMember& member : newest->workers()) {
    const auto fence = fenced.find(member.index());
    const bool is_fenced =
        fence != fenced.end() && !(fence->second < member.generation());
    if (member.index() != 0 && !is_fenced) sessions[member.index()] = member;
  }
  return sessions;
}

std::vector<v1::SavedSession> TakeOver::Sessions() const {
  using Key = std::tuple<uint64_t, uint64_t, uint32_t>;
  struct Seen {
    size_t servers = 0;
    v1::SavedSession session;
  };
  std::map<Key, Seen> seen;
  size_t owners = 0;
  for (const auto& [server, reply] : replies_) {
    if (!Owns(server)) continue;
    ++owners;
    for (const v1::SavedSession& session : reply.sessions()) {
      Seen& known = seen[{session.generation().term(),
                          session.generation().counter(), session.worker()}];
      const uint64_t before =
          known.servers == 0 ? session.sequence() : known.session.sequence();
      known.session = session;
      known.session.set_sequence(std::min(before, session.sequence()));
      ++known.servers;
    }
  }
  std::vector<v1::SavedSession> sessions;
  for (const auto& [key, known] : seen) {
    if (known.servers == owners && known.session.sequence() > 0) {
      sessions.push_back(known.session);
    }
  }
  return sessions;
}

uint64_t PushesCounted(const v1::Manifest& checkpoint, uint32_t worker,
                       const v1::SessionId& generation) {
  // Those that ended after their cuts, then the newest ones.
  for (const v1::SavedSession& ended : checkpoint.ended()) {
    if (ended.worker() == worker && ended.generation() == generation) {
      return ended.sequence();
    }
  }
  for (const v1::SavedSession& newest : checkpoint.sessions()) {
    if (newest.worker() != worker || newest.generation() < generation) continue;
    return newest.generation() == generation
               ? newest.sequence()
               : std::numeric_limits<uint64_t>::max();
  }
  return 0;
}

}  // namespace paramd
