#ifndef PARAMD_COORDINATOR_CORE_SYNC_STEPS_H_
#define PARAMD_COORDINATOR_CORE_SYNC_STEPS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/input_cursor.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// Which steps of sync mode are decided, and what each server knows of it.
//
//   settled ──Decide──► told: servers apply the step ──► settled
//
// Invariants: a step is decided when all contributors but the backup workers
// are wholly on every server, one with examples among them, and every server
// has applied the step before it. Who contributes changes only while settled:
// then no server misses a decided step.
//
// Not thread-safe: lives inside the coordinator's core, which drives it.
class SyncSteps {
 public:
  struct Options {
    uint32_t servers = 1;
    uint64_t examples = 0;  // In the training set.
    uint32_t epochs = 1;
    uint64_t batch = 1;  // Examples of one contribution.
    uint32_t backup_workers = 0;
    uint32_t pruning = 0;  // Entries of optimizer.pruning.
  };

  explicit SyncSteps(const Options& options);

  // Goes on after `step`, with this input left; every server is as of that step
  // and nobody contributes yet.
  void Restore(uint64_t step, const v1::SavedInput& input);

  // ---- who contributes

  // These workers, from the next step on. REQUIRES: settled(), some workers in
  // ascending order.
  v1::Contributors Propose(const std::vector<uint32_t>& workers,
                           const v1::ContributorsVersion& version) const;
  // They contribute from now on. REQUIRES: proposed since the last step.
  void SetContributors(const v1::Contributors& contributors, Time now);
  const v1::Contributors& contributors() const { return contributors_; }

  // ---- steps

  // Every server has applied the newest decided step.
  bool settled() const;
  // Decides the next step if it is time to. False: it is not.
  bool Decide(Time now);
  // The newest decided step.
  uint64_t step() const { return step_; }
  // The newest decided step to which the worker should have contributed and did
  // not. 0: there is none.
  uint64_t LeftOutStep(uint32_t worker) const;
  bool finished() const { return input_.finished(); }
  const InputCursor& input() const { return input_; }

  // What the server is told, and what it answered; another's contributors are
  // ignored.
  v1::DecideRequest RequestFor(uint32_t server) const;
  void Answered(uint32_t server, const v1::DecideReply& reply);

  // Whether there is something to tell the server, or to hear from it.
  bool MustAsk(uint32_t server) const;

  // The first contributor, in their order, whose contribution to the next step
  // is not wholly everywhere; unset: nobody's, or there is no such step.
  absl::optional<uint32_t> missing() const;
  // Whom the next step waits for; empty: nobody. By their sessions and lives,
  // as far as these are told.
  std::string waiting_for(const std::map<uint32_t, v1::SessionId>& sessions,
                          const std::vector<v1::ServerLife>& lives) const;
  Time decided_at() const { return decided_at_; }

 private:
  struct Server {
    uint64_t applied = 0;
    std::vector<uint32_t> complete;  // Of the step after `applied`.
    std::vector<v1::MagnitudeCounts> magnitudes;  // As of `applied`.
    std::vector<v1::ChannelSizes> channels;       // The same.
  };

  // Whose contributions to the next step are wholly on every server.
  std::vector<uint32_t> CompleteEverywhere() const;
  // Whether any of these has examples in the next step.
  bool HaveExamples(const std::vector<uint32_t>& workers) const;
  // What becomes zero with the next step, by what the weights of all servers
  // are before it. REQUIRES: every server has said something as of that.
  std::vector<v1::PruningThreshold> FindThresholds() const;
  // The same for channels. REQUIRES: the same.
  std::vector<v1::PrunedChannels> FindChannels() const;
  // Of this entry of optimizer.pruning; unset: no server says that it is time,
  // or one says what is no histogram.
  absl::optional<float> ThresholdOf(uint32_t pruning) const;
  // Of all contributors together, in one step.
  uint64_t StepExamples() const {
    return options_.batch * contributors_.workers_size();
  }

  const Options options_;
  InputCursor input_;  // What the next step begins with.
  uint64_t step_ = 0;
  std::vector<uint32_t> decided_;  // Of step_: whose contributions.
  uint64_t decided_examples_ = 0;  // The same: dropped ones included.
  std::vector<v1::PruningThreshold> thresholds_;
  std::vector<v1::PrunedChannels> channels_;
  std::map<uint32_t, uint64_t> left_out_;  // By worker; as LeftOutStep.
  Time decided_at_;
  v1::Contributors contributors_;
  std::vector<Server> servers_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_SYNC_STEPS_H_
