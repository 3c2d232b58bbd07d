#ifndef PARAMD_COORDINATOR_CORE_TESTING_PART_BENCH_H_
#define PARAMD_COORDINATOR_CORE_TESTING_PART_BENCH_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "coordinator/core/turn.h"

namespace paramd::testing {

// How far the job is, as the test says.
class SetProgress : public JobProgress {
 public:
  uint64_t global_step() const override { return step; }
  uint64_t StepAt(const Cuts&) const override { return step; }
  v1::SavedInput InputLeft(const Cuts&) const override { return left; }
  bool InputFinished() const override { return finished; }
  uint32_t EpochsFinished() const override { return epochs; }
  bool IsBetweenSteps() const override { return between_steps; }
  std::string StepWaitsFor() const override { return "a step"; }
  absl::Duration LongestStep() const override { return longest_step; }

  uint64_t step = 0;
  v1::SavedInput left;
  bool finished = false;
  uint32_t epochs = 0;
  bool between_steps = true;
  absl::Duration longest_step;
};

// All that one part of a coordinator sees, without the others: 2 servers that
// are there and hold the configuration, nobody else. What it does is read from
// `out` and `facts`. Not thread-safe.
class PartBench {
 public:
  explicit PartBench(CoordinatorOptions job_options)
      : options(std::move(job_options)),
        job{options, phase,    configuration.get(),       servers,
            workers, progress, [this] { return awaited; }},
        servers(options.servers),
        work_(options.job_digest, options.nonce_seed) {
    configuration.Begin(1, "run", options.job_digest);
    work_.LogRead(1, "run", {});
    for (ServerRecord& server : servers) {
      server.suspected = false;
      server.restored = true;
      server.acknowledged = configuration.get().version();
      server.acknowledged.set_counter(1000);
    }
  }

  // Calls `part` with a turn of its own; `out` and `facts` are of that alone.
  template <typename Call>
  void Do(const Call& call) {
    out = Outbox();
    Turn turn(now, &out, job, &configuration, &work_);
    call(&turn);
    facts = turn.TakeFacts();
  }
  // The oldest work that is under way has ended so; so does the call of it.
  template <typename Head>
  void End(IoId io, absl::Status status, const Head& head) {
    IoResult result{io, std::move(status), std::make_unique<Head>(head), {}};
    out = Outbox();
    const PendingWork::Ended ended = work_.End(&result, true, &out);
    Turn turn(now, &out, job, &configuration, &work_);
    if (ended.handler != nullptr) ended.handler(result, &turn);
    facts = turn.TakeFacts();
  }

  // Null: no such fact was raised.
  template <typename What>
  const What* Raised() const {
    for (const Fact& fact : facts) {
      if (const auto* what = std::get_if<What>(&fact)) return what;
    }
    return nullptr;
  }

  const CoordinatorOptions options;
  JobPhase phase = JobPhase::kRunning;
  LiveConfiguration configuration;
  SetProgress progress;
  std::string awaited;  // By everything.
  const JobView job;
  std::vector<ServerRecord> servers;
  std::map<uint32_t, WorkerRecord> workers;
  Time now = Time::FromNanoseconds(1'000'000'000);
  Outbox out;
  std::vector<Fact> facts;

 private:
  PendingWork work_;
};

}  // namespace paramd::testing

#endif  // PARAMD_COORDINATOR_CORE_TESTING_PART_BENCH_H_
