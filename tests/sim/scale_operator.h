#ifndef PARAMD_TESTS_SIM_SCALE_OPERATOR_H_
#define PARAMD_TESTS_SIM_SCALE_OPERATOR_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "tensor/core.h"

namespace paramd {

// An operator who scales a running job: asks for each number of ps when its
// time has come and `may_begin` lets it, even if the number before has not been
// reached, and asks again until it is; leaves after the last one, or when the
// job has ended. It goes on to the next number only after this one has been
// answered once: a request that the coordinator never answered might reach it
// after the next one, as a new number.
//
// Not thread-safe: a core of the simulator, named outside.
class ScaleOperator : public Core {
 public:
  // When, after the core's start, and how many ps.
  using Step = std::pair<absl::Duration, uint32_t>;

  // `asked`: so many are asked for, for the first time; `done`: they hold
  // everything.
  ScaleOperator(std::vector<Step> steps, std::function<bool()> may_begin,
                std::function<void(uint32_t)> asked,
                std::function<void(uint32_t)> done)
      : steps_(std::move(steps)),
        may_begin_(std::move(may_begin)),
        asked_(std::move(asked)),
        has_done_(std::move(done)) {}

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return next_; }

 private:
  // Of the step that begins at this time.
  bool IsNextDue(Time now) const {
    return step_ + 1 < steps_.size() && (was_heard_ || !has_asked_) &&
           now >= started_ + steps_[step_ + 1].first;
  }
  void GoOn(Time now, Outbox* out);

  const std::vector<Step> steps_;
  const std::function<bool()> may_begin_;
  const std::function<void(uint32_t)> asked_;
  const std::function<void(uint32_t)> has_done_;
  Time started_;
  Time next_ = Time::Never();
  size_t step_ = 0;
  bool has_asked_ = false;  // For that.
  bool was_heard_ = false;  // Has answered that.
  CallId calls_ = 0;
  CallId call_ = 0;  // 0: none.
  int failures_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_SCALE_OPERATOR_H_
