#ifndef PARAMD_TESTS_SIM_STAGE_WORKER_H_
#define PARAMD_TESTS_SIM_STAGE_WORKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "tensor/core.h"
#include "tests/sim/staged_integers.h"
#include "worker/stages/stage_calls.h"

namespace paramd {

class StageWorker;

// What a worker trains on, and who hears of it.
class StageJob {
 public:
  virtual ~StageJob() = default;

  // None: all is trained.
  virtual absl::optional<StagedBatch> NextBatch(const StageWorker& worker) = 0;
  // Batches to evaluate, some on the same weights.
  virtual StagedBatch TestBatch() = 0;
  virtual StagedWeights WeightsOf(const StageWorker& worker) = 0;
  virtual StagedWeights TestWeights(const StageWorker& worker) = 0;
  virtual void Trained(const StageWorker& worker,
                       const StagedWeights& sums) = 0;
  virtual void Evaluated() = 0;
  // A mini-batch failed, and is begun again.
  virtual void BegunAgain() = 0;
  virtual void Wrong(const std::string& what) = 0;
};

// The process of a worker, of which the decisions about its stages are the real
// ones: its calls (StageCalls), the operations of each device
// (StageConversation, StageExchange), what it sends again (SentWeights), and
// what becomes of a mini-batch that failed (JudgeReturn). What threads do with
// them, PipelineModel's and its devices', is done by events here; so is a
// session, of which nothing but its number is left.
//
// Not thread-safe: a core.
class StageWorker : public Core {
 public:
  struct Options {
    uint32_t index = 0;
    uint64_t incarnation = 0;
    StagedNet net;
    // A schedule with a flush, see ScheduleByName; the last device is here.
    std::string schedule;
    uint32_t stages_per_device = 1;
    uint32_t micro_batches = 1;
    uint64_t piece_bytes = 0;
    bool evaluates = false;  // Beside its steps.
    absl::Duration patience;
  };

  StageWorker(const Options& options, StageJob* job);
  ~StageWorker() override;

  const Options& options() const { return options_; }
  // 0: it has none yet.
  uint64_t session() const;
  // Of its own clock, when something was done last for it.
  absl::Duration idle(Time now) const { return now - progressed_at_; }

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  void Drain(Time now, Outbox* out) override;
  std::string overdue(Time now) const override { return around_->overdue(now); }
  Time now() const { return now_; }

 private:
  class Session;
  class Lane;

  // What may go on, does.
  void GoOn(Time now);
  void End(const absl::Status& status);

  const Options options_;
  StageJob& job_;
  Time now_;
  Time progressed_at_;
  std::unique_ptr<Session> session_;
  StageCalls calls_;
  Core* around_ = nullptr;
  std::unique_ptr<Lane> trains_;
  std::unique_ptr<Lane> evaluates_;  // May be null.
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_STAGE_WORKER_H_
