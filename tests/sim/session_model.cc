#include "tests/sim/session_model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "tests/sim/answered_blocks.h"

namespace paramd {
absl::Status SessionModel::Joined(uint32_t worker, const v1::JoinReply& reply) {
  const SessionKey key = {worker, NumberOf(reply.generation())};
  const auto [found, is_new] = sessions_.try_emplace(key);
  Session& session = found->second;
  // An answer that came too late for its call was not taken, and a later one
  // may know more. Who has spoken as this session has taken one.
  const bool has_spoken = session.heartbeat > 0 || session.opened > 0;
  if (!is_new && has_spoken) return absl::OkStatus();
  newest_[worker] = key;
  session.term = reply.configuration().version().term();
  session.block_server.clear();
  for (const IntegerJob::BlockPlace& block : job_.blocks()) {
    session.block_server.push_back(
        reply.configuration().layout().slices(block.slice).server());
  }
  Learn(reply.configuration(), &session);
  return absl::OkStatus();
}

void SessionModel::Learn(const v1::Configuration& configuration,
                         Session* session) {
  const Number version = NumberOf(configuration.version());
  if (!(version > session->configuration)) return;
  session->configuration = version;
  const bool open = session->opened > session->whole;
  // Of those that have not changed nothing may be said.
  session->servers.resize(
      std::max(session->servers.size(),
               static_cast<size_t>(configuration.servers_size())));
  for (const v1::ServerMember& server : configuration.servers()) {
    const Number generation = NumberOf(server.generation());
    Number& known = session->servers[server.index()];
    if (!(generation > known)) continue;
    known = generation;
    if (!open) continue;
    bool lost = false;
    for (size_t b = 0; b < session->acknowledged.size(); ++b) {
      if (session->block_server[b] != server.index()) continue;
      lost |= session->acknowledged[b];
      session->acknowledged[b] = false;
    }
    resent_to_successors_ += lost ? 1 : 0;
  }
}

absl::Status SessionModel::SendsPush(PushLedger::PushIndex index) {
  const PushLedger::Push& push = ledger_.push(index);
  const auto found = sessions_.find(push.session);
  if (found == sessions_.end()) {
    return Wrong(ledger_.NameOf(index), " is of nobody who has joined");
  }
  Session& session = found->second;
  if (push.sequence == session.opened) return absl::OkStatus();
  if (push.sequence < session.opened) {
    return Wrong(ledger_.NameOf(index), " is sent again after push ",
                 session.opened);
  }
  if (session.whole != session.opened) {
    return Wrong(ledger_.NameOf(index), " is opened before push ",
                 session.opened, " is acknowledged");
  }
  if (session.stopped) {
    return Wrong(ledger_.NameOf(index),
                 " is opened while its worker is told to stop");
  }
  if (session.cut_may_be_next && push.stamp == session.snapshot_before) {
    session.cut = push.sequence;
  }
  session.cut_may_be_next = false;
  const Number wanted =
      push.sequence == session.cut ? session.snapshot_before : session.snapshot;
  if (push.stamp != wanted) {
    return Wrong(ledger_.NameOf(index), " has the stamp of snapshot ",
                 push.stamp.first, "-", push.stamp.second,
                 "; when it was opened its worker had heard of ", wanted.first,
                 "-", wanted.second);
  }
  session.opened = push.sequence;
  session.push = index;
  session.acknowledged.assign(job_.blocks().size(), false);
  return absl::OkStatus();
}

absl::Status SessionModel::HearsPush(const v1::PushRequest& request,
                                     const v1::PushReply& reply) {
  const auto found = sessions_.find(KeyOf(request.header()));
  if (found == sessions_.end()) return absl::OkStatus();
  Session& session = found->second;
  if (request.header().sequence() != session.opened ||
      session.opened == session.whole) {
    return absl::OkStatus();
  }
  for (const AnsweredBlock& pushed : AnsweredBlocks(request, reply)) {
    const uint32_t block =
        job_.slices()[pushed.slice].first_block + pushed.block;
    const uint32_t server = session.block_server[block];
    if (NumberOf(reply.server_generation()) != session.servers[server]) {
      return absl::OkStatus();
    }
    session.acknowledged[block] = true;
  }
  return FinishIfWhole(&session);
}

absl::StatusOr<PushLedger::PushIndex> SessionModel::GivesUp(
    const SessionKey& key) {
  const auto found = sessions_.find(key);
  if (found == sessions_.end() || found->second.opened == 0) {
    return Wrong(SessionName(key), " gives a push up, and has opened none");
  }
  // It may be whole here: an answer that came too late for its call was not
  // taken.
  found->second.whole = found->second.opened;
  return found->second.push;
}

absl::Status SessionModel::FinishIfWhole(Session* session) {
  if (!std::all_of(session->acknowledged.begin(), session->acknowledged.end(),
                   [](bool b) { return b; })) {
    return absl::OkStatus();
  }
  session->whole = session->opened;
  for (uint32_t b = 0; b < session->acknowledged.size(); ++b) {
    const uint32_t server = session->block_server[b];
    const Number& generation = session->servers[server];
    if (content_.Contains(server, generation, b, session->push)) continue;
    return Wrong(ledger_.NameOf(session->push),
                 " was acknowledged, but is not in block ", b, " of ps-",
                 server, " as generation ", generation.first, "-",
                 generation.second);
  }
  return when_whole_(session->push);
}

absl::Status SessionModel::CheckCount(const SessionKey& key, uint64_t told,
                                      const char* what) const {
  const auto found = sessions_.find(key);
  if (found == sessions_.end() || told <= found->second.whole) {
    return absl::OkStatus();
  }
  const Session& session = found->second;
  std::string missing;
  for (size_t b = 0; b < session.acknowledged.size(); ++b) {
    if (!session.acknowledged[b]) absl::StrAppend(&missing, " ", b);
  }
  return Wrong(SessionName(key), " tells ", what, " of ", told,
               " pushes; whole are ", session.whole, ", and of push ",
               session.opened, " all blocks but", missing);
}

absl::Status SessionModel::SendsPortion(const v1::PortionRequest& request) {
  return CheckCount(KeyOf(request.header()), request.header().sequence(),
                    "when asking for input");
}

absl::Status SessionModel::SendsHeartbeat(const v1::HeartbeatRequest& request) {
  const SessionKey key = KeyOf(request.header());
  RETURN_IF_ERROR(
      CheckCount(key, request.header().sequence(), "in a heartbeat"));
  const auto found = sessions_.find(key);
  if (found == sessions_.end()) return absl::OkStatus();
  Session& session = found->second;
  session.heartbeat = request.number();
  session.heartbeat_open = true;
  if (request.leaving() && session.whole != session.opened) {
    return Wrong(SessionName(key), " leaves before its push is whole");
  }
  return request.has_cut() ? CheckCut(key, request.cut(), &session)
                           : absl::OkStatus();
}

// One that names no snapshot is as of now.
absl::Status SessionModel::CheckCut(const SessionKey& key,
                                    const v1::WorkerCut& cut,
                                    Session* found) const {
  if (cut.ByteSizeLong() == 0) return absl::OkStatus();
  Session& session = *found;
  const Number number = NumberOf(cut.snapshot());
  if (number != Number() && number != session.snapshot) {
    return Wrong(SessionName(key), " cuts a snapshot that is not the newest");
  }
  if (number != Number() && std::exchange(session.cut_may_be_next, false) &&
      cut.sequence() == session.cut + 1) {
    ++session.cut;
  }
  const uint64_t wanted = number == Number() ? session.opened : session.cut;
  if (cut.sequence() == wanted &&
      (!cut.acknowledged() || session.whole >= wanted)) {
    return absl::OkStatus();
  }
  return Wrong(SessionName(key), " cuts at push ", cut.sequence(),
               " instead of ", wanted, "; it sent ", session.opened,
               ", of which ", session.whole, " are whole");
}

absl::Status SessionModel::HearsHeartbeat(const v1::HeartbeatRequest& request,
                                          const v1::HeartbeatReply* reply) {
  const auto found = sessions_.find(KeyOf(request.header()));
  if (found == sessions_.end()) return absl::OkStatus();
  Session& session = found->second;
  // Only the answer to the newest counts, and that once.
  if (request.number() != session.heartbeat || !session.heartbeat_open) {
    return absl::OkStatus();
  }
  session.heartbeat_open = false;
  if (reply == nullptr || reply->term() < session.term) {
    return absl::OkStatus();
  }
  session.term = reply->term();
  session.stopped = reply->stop();
  if (NumberOf(reply->snapshot()) > session.snapshot) {
    session.snapshot_before =
        std::exchange(session.snapshot, NumberOf(reply->snapshot()));
    session.cut = session.opened;
    session.cut_may_be_next = session.whole == session.opened;
  }
  if (reply->has_configuration()) Learn(reply->configuration(), &session);
  return absl::OkStatus();
}

std::map<SessionKey, uint64_t> SessionModel::whole() const {
  std::map<SessionKey, uint64_t> whole;
  for (const auto& [key, session] : sessions_) whole[key] = session.whole;
  return whole;
}

bool SessionModel::IsOpen(const SessionKey& key, uint64_t sequence) const {
  const auto found = sessions_.find(key);
  return found != sessions_.end() && found->second.opened == sequence &&
         found->second.whole < sequence;
}

bool SessionModel::HasOpenPush(uint32_t worker) const {
  const auto newest = newest_.find(worker);
  if (newest == newest_.end()) return false;
  const Session& session = sessions_.at(newest->second);
  return session.opened > session.whole;
}

bool SessionModel::AnyOpenPush() const {
  return std::any_of(newest_.begin(), newest_.end(), [this](const auto& entry) {
    return HasOpenPush(entry.first);
  });
}

}  // namespace paramd
