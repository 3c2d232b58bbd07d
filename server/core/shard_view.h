#ifndef PARAMD_SERVER_CORE_SHARD_VIEW_H_
#define PARAMD_SERVER_CORE_SHARD_VIEW_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "config/server_settings.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/core/backup_stream.h"
#include "server/core/lost_pushes.h"
#include "server/core/memory_budget.h"
#include "server/core/shard_content.h"
#include "server/core/shard_options.h"
#include "server/core/sync_step.h"
#include "tensor/message.h"

namespace paramd {

// Where the content stands.
//
//   kNone ──Configure──► kFilling ──────► kFilled
//                         │    ▲             │
//                         ▼    └─ a new generation, from all three
//                      kFailed
//
// kBackup: it is what another place of the server has told it; from any of them
// and to any of them, but that kFilled alone goes on with the same content.
enum class FillState { kNone, kFilling, kFilled, kFailed, kBackup };

// What a server holds, and all its parts work on in their turns.
struct ShardData {
  explicit ShardData(uint64_t memory_limit_bytes)
      : memory(memory_limit_bytes) {}

  MemoryBudget memory;
  std::unique_ptr<ShardContent> content;  // Null before the first layout.
  LostPushes lost;                        // With earlier lives of the content.
  std::unique_ptr<SyncStep> step;         // Sync mode, while filled; or null.
  // What is told to whoever takes this server over; null: nobody does.
  std::unique_ptr<BackupStream> backup;
  // With replication: chunks that were acknowledged when only this server had
  // them, and what one more adds to that while there is no backup.
  uint64_t acknowledged_alone = 0;
  uint64_t alone = 0;
};

// Whether a call may be answered now. Each check refuses with the reason, and
// none changes anything.
class CallChecks {
 public:
  virtual ~CallChecks() = default;

  // JOB_FINISHED when the job has ended.
  virtual absl::Status CheckRunning() const = 0;
  // OLD_TERM below the highest term heard.
  virtual absl::Status CheckTerm(uint64_t term) const = 0;
  // NOT_READY where the caller knows more of this server than itself.
  virtual absl::Status CheckKnown(const v1::Header& header) const = 0;
  // NOT_READY while there is no content; says why.
  virtual absl::Status CheckFilled() const = 0;
  // NOT_READY after the snapshot that this server leaves with.
  virtual absl::Status CheckStaying() const = 0;
  // NOT_READY unless a snapshot of this number can have been opened by now.
  virtual absl::Status CheckSnapshot(
      const v1::SnapshotNumber& number) const = 0;
  // NOT_READY in sync mode before the contributors are known.
  virtual absl::Status CheckContributors() const = 0;
  // Whether the caller is a session of the configuration: else NOT_ALLOWED,
  // NOT_READY or FENCED.
  virtual absl::Status CheckSession(PeerId from,
                                    const v1::Header& header) const = 0;
  // Who may push, whatever mode it is.
  virtual absl::Status CheckPusher(PeerId from,
                                   const v1::Header& header) const = 0;
};

// What every part of a Shard may read, whichever keeps it. What it refers to
// outlives it.
struct ShardView {
  const ShardOptions& options;
  const ShardData& data;
  // Told by coordinators; zero and empty before.
  const uint64_t& term;
  const v1::ServerLife& generation;
  const v1::Configuration& configuration;
  const std::map<uint32_t, v1::SessionId>& sessions;  // By worker.
  const FillState& fill_state;
  const absl::Status& fill_failure;  // Where that is kFailed.
  // Why it may not answer though it is filled: another place may be the server.
  const absl::Status& serving;
  // The snapshot that it leaves with, once that is sealed; zero before.
  const v1::SnapshotNumber& drained_by;
  const bool& draining;
  const bool& finished;     // The job.
  const v1::Finished& end;  // Of one that is: how.
  const CallChecks& checks;

  bool IsFilled() const { return fill_state == FillState::kFilled; }
  bool IsSync() const {
    return configuration.consistency().mode() == v1::Consistency::SYNC;
  }
  // What the job says to servers: defaults before the first configuration.
  ServerSettings settings() const { return ServerSettingsIn(configuration); }
  // "ps-0".
  std::string Name() const;
  // This server in a configuration; null if it is not named there.
  const v1::ServerMember* FindSelf(const v1::Configuration& in) const;
  // Which process is to be this place of the server in a configuration that
  // names the server; 0: none, it has other places.
  uint64_t MeantIn(const v1::Configuration& in) const;
  // This place is the backup there.
  bool IsBackupIn(const v1::Configuration& in) const;
  // NOT_READY: `entity` is waited for, and asking again soon makes sense.
  absl::Status NotReady(absl::string_view entity,
                        absl::string_view sentence) const;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_VIEW_H_
