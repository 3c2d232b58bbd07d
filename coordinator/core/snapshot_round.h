#ifndef PARAMD_COORDINATOR_CORE_SNAPSHOT_ROUND_H_
#define PARAMD_COORDINATOR_CORE_SNAPSHOT_ROUND_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/time.h"
#include "proto/paramd/v1/cluster.pb.h"
#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// One snapshot from its opening to its manifest:
//
//   preparing ──► holding ──► sealing ──► writing ──► committing ──► (done)
//   directory     workers     servers     servers     manifest
//                 stop        freeze      write
//
// Workers go on as soon as every server is sealed. At any place it may be given
// up; then nothing of it is ever visible.
//
// Not thread-safe: lives inside the coordinator's core, which drives it.
class SnapshotRound {
 public:
  enum class Phase { kPreparing, kHolding, kSealing, kWriting, kCommitting };

  SnapshotRound(const v1::Version& number, bool final, uint32_t servers,
                Time now)
      : number_(number),
        final_(final),
        opened_(now),
        files_(servers),
        sealed_(servers, false),
        written_(servers, false) {}

  const v1::Version& number() const { return number_; }
  bool is_final() const { return final_; }
  Phase phase() const { return phase_; }
  Time opened() const { return opened_; }
  const std::string& directory() const { return directory_; }
  uint64_t step() const { return step_; }
  Time sealed_at() const { return sealed_at_; }
  // What was left of the input at the cut.
  const v1::SavedInput& input() const { return input_; }
  // Workers must not open a push now.
  bool holds_workers() const {
    return phase_ == Phase::kHolding || phase_ == Phase::kSealing;
  }

  // preparing → holding.
  void Prepared(std::string directory);
  // A worker's cut; of another snapshot, or not acknowledged: no change.
  void Cut(uint32_t worker, const v1::WorkerCut& cut);
  bool HasCut(uint32_t worker) const { return cuts_.contains(worker); }
  const std::map<uint32_t, v1::WorkerCut>& cuts() const { return cuts_; }
  // holding → sealing: every worker that counts has cut.
  void BeginSeal(uint64_t step, v1::SavedInput input,
                 std::vector<v1::Version> server_generations, Time now);
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

  // The manifest: positions and partial pushes from the sealed records.
  // REQUIRES: phase() is committing.
  v1::Manifest MakeManifest(const v1::JobConfig& job,
                            const v1::Configuration& configuration) const;

  // Whom it waits for, for people.
  std::string waiting_for(const std::map<uint32_t, bool>& live_workers) const;

 private:
  const v1::Version number_;
  const bool final_;
  const Time opened_;
  Phase phase_ = Phase::kPreparing;
  std::string directory_;
  std::map<uint32_t, v1::WorkerCut> cuts_;
  uint64_t step_ = 0;
  Time sealed_at_;
  v1::SavedInput input_;
  std::vector<v1::Version> server_generations_;
  std::vector<v1::ShardFile> files_;
  std::vector<bool> sealed_;
  std::vector<bool> written_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SNAPSHOT_ROUND_H_
