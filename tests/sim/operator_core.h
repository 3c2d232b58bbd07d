#ifndef PARAMD_TESTS_SIM_OPERATOR_CORE_H_
#define PARAMD_TESTS_SIM_OPERATOR_CORE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "tensor/core.h"

namespace paramd {

// A person who changes the staleness of a running job: sets each value when its
// time has come, asks again until it is answered, and leaves after the last, or
// when the job has ended.
//
// Not thread-safe: a core of the simulator, named outside.
class OperatorCore : public Core {
 public:
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

 private:
  void PlanNext(Outbox* out);

  const std::vector<Setting> settings_;
  Time started_;
  Time next_ = Time::Never();
  size_t done_ = 0;
  int failures_ = 0;
  CallId call_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_OPERATOR_CORE_H_
