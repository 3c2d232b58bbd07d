// A job that fails in the chief's process: everybody ends, and says why.
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "tests/sim/few_seeds.h"
#include "tests/sim/fine_cut.h"
#include "tests/sim/integer_cluster.h"
#include "tests/sim/integer_job.h"
#include "tests/sim/simulation.h"
#include "tests/sim/storage.h"

namespace paramd {
namespace {

constexpr PeerId kChiefsWorker = PeerId::Worker(0);
constexpr absl::Duration kLookAgain = absl::Milliseconds(50);

uint64_t Seeds() { return FewSeeds() ? 12 : 150; }

const absl::Status& NoNumber() {
  static const auto* const why = new absl::Status(
      absl::StatusCode::kFailedPrecondition, "the loss is nan");
  return *why;
}

// One job whose chief's worker fails at some step. In mode sync a job fails in
// tests/cluster/failed_job_test.
class FailingRun {
 public:
  FailingRun(uint64_t seed, const Faults& faults)
      : random_(StableHash("failing", seed)),
        cut_(DrawCut(seed)),
        job_(seed, {.staleness = seed % 3 == 0 ? "2" : "async"}),
        simulation_({.seed = seed,
                     .faults = faults,
                     .stall_limit = absl::Hours(1),
                     .replay_command = absl::StrCat("seed ", seed)}),
        cluster_({.seed = seed}, job_, /*witness=*/nullptr, &storage_,
                 &simulation_),
        fails_at_(1 + random_.Below(20)) {
    simulation_.OnExit(
        [this](const SimProcess& process, const absl::Status& status) {
          ends_[process.peer] = status;
          last_end_ = simulation_.elapsed();
          return absl::OkStatus();
        });
    Look();
  }

  // The chief dies soon after its failure.
  void KillChief() { kills_chief_ = true; }

  absl::Status Run() { return simulation_.Run(); }
  // Of each process but the chief's worker.
  const std::map<PeerId, absl::Status>& ends() const { return ends_; }
  absl::Duration took() const { return last_end_ - failed_; }
  size_t processes() const {
    return 2 + cluster_.options().servers + cluster_.options().workers - 2;
  }

 private:
  void Look() {
    simulation_.At(simulation_.elapsed() + kLookAgain, [this] {
      if (cluster_.JobStatus().global_step() < fails_at_) return Look();
      failed_ = simulation_.elapsed();
      simulation_.Crash(kChiefsWorker);
      simulation_.FailBeside(PeerId::Coordinator(), NoNumber());
      if (!kills_chief_) return;
      simulation_.At(failed_ + absl::Milliseconds(random_.Below(400)), [this] {
        if (simulation_.IsUp(PeerId::Coordinator())) {
          simulation_.Crash(PeerId::Coordinator());
        }
      });
    });
  }

  RandomStream random_;
  const FineCut cut_;
  const IntegerJob job_;
  SimStorage storage_;
  Simulation simulation_;
  IntegerCluster cluster_;
  const uint64_t fails_at_;
  bool kills_chief_ = false;
  absl::Duration failed_;
  absl::Duration last_end_;
  std::map<PeerId, absl::Status> ends_;
};

TEST(FailedJobSimTest, Promise7_OnAGoodNetworkAllEndWithTheReason) {
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    FailingRun run(seed, Faults());
    ASSERT_EQ(run.Run(), absl::OkStatus()) << seed;
    EXPECT_EQ(run.ends().size(), run.processes()) << seed;
    for (const auto& [peer, end] : run.ends()) {
      EXPECT_EQ(end, NoNumber()) << PeerName(peer) << " of seed " << seed;
    }
    // One that had not come yet is waited for.
    EXPECT_LE(run.took(), absl::Seconds(21)) << seed;
  }
}

TEST(FailedJobSimTest, Promise7_OnAnyNetworkNobodyStaysOrEndsWell) {
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    RandomStream network(StableHash("network", seed));
    FailingRun run(seed, Faults::Draw(&network));
    ASSERT_EQ(run.Run(), absl::OkStatus()) << seed;
    for (const auto& [peer, end] : run.ends()) {
      EXPECT_FALSE(end.ok()) << PeerName(peer) << " of seed " << seed;
    }
  }
}

TEST(FailedJobSimTest, Promise7_WhoeverHasHeardNeedsTheChiefNoMore) {
  uint64_t told = 0;
  for (uint64_t seed = 1; seed <= Seeds(); ++seed) {
    FailingRun run(seed, Faults());
    run.KillChief();
    ASSERT_EQ(run.Run(), absl::OkStatus()) << seed;
    for (const auto& [peer, end] : run.ends()) {
      EXPECT_FALSE(end.ok()) << PeerName(peer) << " of seed " << seed;
      told += end == NoNumber();
    }
  }
  EXPECT_GT(told, 4 * Seeds());
}

}  // namespace
}  // namespace paramd
