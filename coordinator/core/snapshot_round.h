#ifndef PARAMD_COORDINATOR_CORE_SNAPSHOT_ROUND_H_
#define PARAMD_COORDINATOR_CORE_SNAPSHOT_ROUND_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// One snapshot from its opening to its manifest:
//
//   preparing ──► cutting ──► sealing ──► writing ──► committing ──► (done)
//   directory     workers     servers     servers     manifest
//                 cut         freeze      write
//
// Pushes go on after the workers' cuts, except for a snapshot that somebody
// leaves with: for that, workers open none until every server is sealed. At any
// place it may be given up; then nothing of it is ever visible.
//
// What a worker uses of its input after its cut is not used in the snapshot,
// whatever becomes of the worker before the seal.
//
// Not thread-safe: lives inside the coordinator's core, which drives it.
class SnapshotRound {
 public:
  enum class Phase { kPreparing, kCutting, kSealing, kWriting, kCommitting };
  struct Options {
    uint32_t servers = 1;
    bool final = false;    // The last of the job.
    bool stopped = false;  // Nothing is pushed after the cuts before the seal.
    v1::SnapshotNumber base =
        {};  // To refer to for what has not changed. Zero: none.
  };

  SnapshotRound(const v1::SnapshotNumber& number, const Options& options,
                Time now)
      : number_(number),
        options_(options),
        opened_(now),
        files_(options.servers),
        sealed_(options.servers, false),
        written_(options.servers, false) {}

  const v1::SnapshotNumber& number() const { return number_; }
  bool is_final() const { return options_.final; }
  bool stopped() const { return options_.stopped; }
  Phase phase() const { return phase_; }
  Time opened() const { return opened_; }
  const std::string& directory() const { return prepared_.directory(); }
  const v1::SnapshotNumber& base() const { return options_.base; }
  uint64_t step() const { return step_; }
  Time sealed_at() const { return sealed_at_; }
  // What was left of the input at the cut.
  const v1::SavedInput& input() const { return input_; }
  // Workers are told of it now, and nothing of it is sealed everywhere.
  bool is_open() const {
    return phase_ == Phase::kCutting || phase_ == Phase::kSealing;
  }

  // Nobody was heard for so long, and it waits for nobody the less.
  void Pause(absl::Duration pause);
  // preparing → cutting: opened under these generations of the servers.
  void Prepared(const v1::PrepareCheckpointResult& prepared,
                std::vector<v1::ServerLife> server_generations);
  // A worker's cut; of another snapshot: no change.
  void Cut(uint32_t worker, const v1::WorkerCut& cut);
  bool HasCut(uint32_t worker) const { return cuts_.contains(worker); }
  // Every push up to it is acknowledged or given up.
  bool HasAcknowledged(uint32_t worker) const;
  const std::map<uint32_t, v1::WorkerCut>& cuts() const { return cuts_; }
  // The worker has used up these portions, or parts of them.
  void Used(uint32_t worker, const std::vector<v1::Portion>& portions);
  // The session is gone after that push. Its successor has a cut of its own.
  void Gone(const v1::SavedSession& session);
  // cutting → sealing: every worker that counts has acknowledged its cut.
  // `step` and `input`: pushes, and input left, where those of workers that are
  // gone count as before their cuts; of the present ones by their cuts.
  void BeginSeal(uint64_t step, v1::SavedInput input,
                 const std::vector<v1::SavedSession>& present, Time now);
  bool NeedsSeal(uint32_t server) const {
    return phase_ == Phase::kSealing && !sealed_[server];
  }
  v1::SealRequest SealFor(uint32_t server) const;
  // The server is frozen; sealing → writing with the last one.
  void Sealed(uint32_t server);
  bool NeedsWritten(uint32_t server) const {
    return phase_ == Phase::kWriting && !written_[server];
  }
  // The server's file is durable; writing → committing with the last one.
  void Written(uint32_t server, const v1::ShardFile& file);

  // The manifest: positions and partial pushes from the sealed records. A
  // session is at its cut if nothing of its last pushes reached a server.
  // REQUIRES: phase() is committing.
  v1::Manifest MakeManifest(const v1::JobConfig& job,
                            const v1::Configuration& configuration) const;

  // Whom it waits for, for people. `sessions`: those that live, by worker.
  std::string waiting_for(
      const std::map<uint32_t, v1::SessionId>& sessions) const;

 private:
  const v1::SnapshotNumber number_;
  const Options options_;
  Time opened_;
  Phase phase_ = Phase::kPreparing;
  v1::PrepareCheckpointResult prepared_;
  std::map<uint32_t, v1::WorkerCut> cuts_;
  std::vector<v1::Portion> used_behind_;  // Bound: input used while it is open.
  uint64_t pushes_behind_ = 0;            // Of workers that are gone.
  std::vector<v1::SavedSession> counted_;  // With a cut: as the step has them.
  uint64_t step_ = 0;
  Time sealed_at_;
  v1::SavedInput input_;
  std::vector<v1::ServerLife> server_generations_;
  std::vector<v1::ShardFile> files_;
  std::vector<bool> sealed_;
  std::vector<bool> written_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SNAPSHOT_ROUND_H_
