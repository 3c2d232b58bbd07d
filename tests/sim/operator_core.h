#ifndef PARAMD_TESTS_SIM_OPERATOR_CORE_H_
#define PARAMD_TESTS_SIM_OPERATOR_CORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/status.pb.h"
#include "tensor/core.h"

namespace paramd {

// A person who changes the staleness of a running job, asks for checkpoints, or
// stops the job: does each when its time has come, asks again until it is
// answered, and leaves after the last, or when the job has ended.
//
// Not thread-safe: a core of the simulator, named outside.
class OperatorCore : public Core {
 public:
  // In place of a value: a checkpoint is asked for.
  static constexpr char kCheckpoint[] = "checkpoint";
  // Or the job is stopped, or that without a last checkpoint.
  static constexpr char kStop[] = "stop";
  static constexpr char kStopNow[] = "stop now";
  // When, after the core's start, and what.
  using Setting = std::pair<absl::Duration, std::string>;

  explicit OperatorCore(std::vector<Setting> settings)
      : settings_(std::move(settings)) {}

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return next_; }

  // How many were answered.
  size_t done() const { return done_; }
  // How far the job is, as anybody may know; before the start.
  void WatchStep(std::function<uint64_t()> step) { step_ = std::move(step); }

  struct Checkpoint {
    v1::CheckpointReply said;
    uint64_t asked_at = 0;  // The step then, if it is watched.
  };
  // How the job was stopped, as all hear of it; OK: it was not, or this one has
  // not heard.
  const absl::Status& stopped() const { return stopped_; }
  // Those that were asked for and are there.
  const std::vector<Checkpoint>& checkpoints() const { return checkpoints_; }

 private:
  void PlanNext(Outbox* out);
  Outbox::Head NextRequest();
  // False: it is to be asked again.
  bool Take(const v1::CheckpointReply& reply);

  const std::vector<Setting> settings_;
  Time started_;
  Time next_ = Time::Never();
  size_t done_ = 0;
  std::function<uint64_t()> step_;
  std::vector<Checkpoint> checkpoints_;
  absl::Status stopped_;
  uint64_t asked_at_ = 0;
  // Of the one that was asked for. Zero: not told yet.
  v1::SnapshotNumber number_;
  int failures_ = 0;
  CallId call_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_OPERATOR_CORE_H_
