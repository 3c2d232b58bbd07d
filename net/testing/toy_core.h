#ifndef PARAMD_NET_TESTING_TOY_CORE_H_
#define PARAMD_NET_TESTING_TOY_CORE_H_

#include <functional>
#include <string>
#include <utility>

#include "tensor/core.h"

namespace paramd {

// A core whose behaviour a test writes down in place. Not thread-safe.
class ToyCore : public Core {
 public:
  std::function<void(Time, Outbox*)> on_start;
  std::function<void(Message, Time, Outbox*)> on_receive;
  std::function<void(IoResult, Outbox*)> on_completed;
  std::function<void(Time, Outbox*)> on_tick;
  std::function<void(Outbox*)> on_drain;  // None: exits with OK.
  std::function<void(const absl::Status&, Outbox*)> on_fail;  // The same.
  Time tick = Time::Never();
  std::string waits_for;

  void Start(Time now, Outbox* out) override {
    if (on_start) on_start(now, out);
  }
  void Receive(Message message, Time now, Outbox* out) override {
    if (on_receive) on_receive(std::move(message), now, out);
  }
  void Completed(IoResult result, Time, Outbox* out) override {
    if (on_completed) on_completed(std::move(result), out);
  }
  void Tick(Time now, Outbox* out) override {
    tick = Time::Never();
    if (on_tick) on_tick(now, out);
  }
  Time next_tick() const override { return tick; }
  void Drain(Time now, Outbox* out) override {
    on_drain ? on_drain(out) : Core::Drain(now, out);
  }
  void Fail(const absl::Status& why, Time now, Outbox* out) override {
    on_fail ? on_fail(why, out) : Core::Fail(why, now, out);
  }
  std::string overdue(Time) const override { return waits_for; }
};

}  // namespace paramd

#endif  // PARAMD_NET_TESTING_TOY_CORE_H_
