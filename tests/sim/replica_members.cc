#include "tests/sim/replica_members.h"

#include <algorithm>

#include "absl/strings/match.h"

#include "proto/refusal.h"

namespace paramd {

namespace {

// Nobody keeps what the coordinator before this one has filled.
bool AllBeginAnew(const v1::Configuration& configuration) {
  return std::all_of(
      configuration.servers().begin(), configuration.servers().end(),
      [&](const v1::ServerMember& server) {
        const v1::ServerLife& filled =
            IsZero(server.filled()) ? server.generation() : server.filled();
        return filled.term() == configuration.version().term();
      });
}

}  // namespace

ReplicaMembers::Change ReplicaMembers::Told(
    const v1::Configuration& configuration) {
  Change change;
  if (!(configuration.version() > newest_.version())) return change;
  if (configuration.version().term() != newest_.version().term()) {
    chief_is_down_ = false;
    change.went_back =
        !IsZero(newest_.version()) && AllBeginAnew(configuration);
  }
  change.in_sync_mode = newest_.consistency().mode() == v1::Consistency::SYNC;
  for (const v1::ServerMember& server : configuration.servers()) {
    const auto before = static_cast<int>(server.index());
    if (before >= newest_.servers_size()) continue;
    const v1::ServerMember& last = newest_.servers(before);
    if (server.peer() != last.peer()) {
      change.taken_over.push_back(server);
      moving_.erase(server.index());
    }
    if (server.backup().member() && !last.backup().member()) ++change.members;
  }
  newest_ = configuration;
  return change;
}

absl::Status ReplicaMembers::Answered(uint32_t server, uint32_t place,
                                      const v1::ConfigureReply& reply) {
  if (reply.restored()) {
    const v1::ServerMember& is = newest_.servers(static_cast<int>(server));
    if (is.peer() == place && reply.configuration() == newest_.version()) {
      filled_[server] = is.generation();
    }
  }
  const v1::BackupReport& backup = reply.backup();
  if (backup.lost().empty()) return absl::OkStatus();
  // What asks for that and dies is the second to be lost.
  dropped_[server] = backup.since();
  // Whatever happens to whom, both do the same.
  return absl::StrContains(backup.lost(), "not as the server was")
             ? absl::DataLossError(backup.lost())
             : absl::OkStatus();
}

void ReplicaMembers::Noted(absl::string_view note) {
  restored_alone_ |= absl::StrContains(note, " is back after it was stopped");
  restored_alone_ &= !absl::StartsWith(note, "checkpoint committed");
}

void ReplicaMembers::Drops(uint32_t server) {
  dropped_[server] = newest_.servers(static_cast<int>(server)).backup().since();
}

void ReplicaMembers::Logs(const v1::ServerMember& server) {
  const auto& last = newest_.servers(static_cast<int>(server.index()));
  if (server.peer() != last.peer()) moving_.insert(server.index());
}

void ReplicaMembers::Begin(uint32_t task, uint64_t incarnation,
                           absl::Duration now) {
  begun_[task] = now;
  processes_[task] = incarnation;
}

bool ReplicaMembers::IsDropped(const v1::ServerMember& server) const {
  const auto dropped = dropped_.find(server.index());
  return dropped != dropped_.end() &&
         dropped->second == server.backup().since();
}

bool ReplicaMembers::MayCompare(const v1::ServerMember& server) const {
  return server.backup().member() && !IsDropped(server) &&
         !ended_.contains(server.incarnation()) &&
         !ended_.contains(server.backup().incarnation());
}

bool ReplicaMembers::IsProtected() const {
  return IsNobodyDown() && IsRunning() &&
         std::all_of(newest_.servers().begin(), newest_.servers().end(),
                     [this](const v1::ServerMember& server) {
                       return MayCompare(server) &&
                              !unheard_.contains(server.peer());
                     });
}

bool ReplicaMembers::AreFilled() const {
  return std::all_of(newest_.servers().begin(), newest_.servers().end(),
                     [this](const v1::ServerMember& server) {
                       const auto filled = filled_.find(server.index());
                       return filled != filled_.end() &&
                              filled->second == server.generation() &&
                              !ended_.contains(server.incarnation());
                     });
}

bool ReplicaMembers::IsKnownToHold() const {
  return IsNobodyDown() && !restored_alone_ && moving_.empty() && IsRunning() &&
         AreFilled() &&
         std::all_of(newest_.servers().begin(), newest_.servers().end(),
                     [this](const v1::ServerMember& server) {
                       return !unheard_.contains(server.peer()) &&
                              !ended_.contains(server.incarnation());
                     });
}

}  // namespace paramd
