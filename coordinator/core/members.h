#ifndef PARAMD_COORDINATOR_CORE_MEMBERS_H_
#define PARAMD_COORDINATOR_CORE_MEMBERS_H_

#include <cstdint>
#include <string>

#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "tensor/message.h"

// What the coordinator has heard of each process, and asks it at present: plain
// values of its own.
namespace paramd {

// A server, as the coordinator sees it.
struct ServerRecord {
  enum class Call {
    kNone,
    kRecall,
    kConfigure,
    kSeal,
    kWritten,
    kFetch,
    kFill,
    kFinish
  };

  uint64_t incarnation = 0;  // 0: not heard of yet.
  Time heard;                // If it was.
  std::string build;         // Of that process. Empty: not known.
  v1::ServerLife generation;
  std::string restore_directory;
  // The life that was filled with that: an earlier one if backups took over
  // what it held. Zero: this one.
  v1::ServerLife filled;
  // With replication: where it is, who may take it over or is told what it
  // holds to that end, and, after that, which backup it was.
  absl::optional<uint32_t> peer;
  absl::optional<v1::Backup> backup;
  v1::ConfigurationVersion took_over;
  bool last_has_ended = false;
  bool taken_over = false;  // Soon: it is asked nothing more.
  bool ended = false;       // Its process, for certain.
  bool suspected = true;    // To be recalled before anything else.
  bool restored = false;
  v1::ConfigurationVersion acknowledged;  // Newest configuration it has.
  // The same, of this process: it is told what has changed since. Zero: it is
  // told the whole.
  v1::ConfigurationVersion told_since;
  bool told_changes = false;          // By the last call.
  v1::SnapshotNumber told_committed;  // By the newest call.
  // To be saved before it leaves, as it said last; and since when it drains,
  // Never() if it does not.
  bool draining = false;
  Time drains_since = Time::Never();
  v1::SnapshotNumber drained_by;  // The same.
  bool drained = false;           // It was told that it may leave.
  int end_told = 0;   // 1: told of the end; 2: and that everybody knows.
  int end_asked = 0;  // What the call under way tells.
  Call call = Call::kNone;
  CallId call_id = 0;
  // The snapshot of the call under way, or the last one.
  v1::SnapshotNumber asked;
  Time next_call;
  Time next_keepalive;
  std::string why;  // The last failure, for people.
};

// A worker that has a session.
struct WorkerRecord {
  uint64_t incarnation = 0;
  uint64_t left_sessions = 0;  // Of that process, before this one.
  v1::SessionId generation;
  v1::ConfigurationVersion admitted;  // The configuration that has it.
  std::string host;
  uint32_t pid = 0;
  std::string address;  // Of one that no list names, if it listens.
  Time heard;
  v1::HeartbeatRequest last;  // Newest heartbeat.
  uint64_t acknowledged = 0;  // Pushes.
  uint64_t start_clock = 0;
  uint64_t clock() const { return start_clock + acknowledged; }
  CallId parked = 0;  // Call of it, if it is not answered yet.
  Time parked_until;
  bool fencing = false;
  bool fence_logged = false;  // Or being logged.
};

// A process that asks to join, and has no session yet.
struct JoiningRecord {
  CallId call = 0;
  v1::JoinRequest request;
  Time since;         // When this incarnation was first heard.
  Time answer_until;  // The parked call.
};

// Adds a member of the job, for people, of which nothing is known yet.
v1::Member* AddMember(v1::TaskType type, uint32_t index, v1::JobStats* job);

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_MEMBERS_H_
