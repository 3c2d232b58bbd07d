#ifndef PARAMD_TESTS_SIM_BOUND_WITNESS_H_
#define PARAMD_TESTS_SIM_BOUND_WITNESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/core.h"

namespace paramd {

// Stands between a server's core and the rest of the world, keeps its own plain
// account of who is how far by what comes in and goes out, and fails the run if
// after any event
//   - a pull was answered to a worker more than the bound ahead of the slowest
//     one that counts: a session of the configuration, with input, heard within
//     the lease;
//   - a pull that may be answered was not;
//   - a pull has waited for longer than the park timeout, or was told to wait
//     for somebody who is not the slowest.
// Configurations without a bound let everybody through.
//
// Not thread-safe. The core outlives it.
class BoundWitness : public Core {
 public:
  struct Options {
    absl::Duration lease;
    absl::Duration park_timeout;
    std::function<void(absl::Status)> fail;
  };
  // How often a pull that waited was let through because of what, and how often
  // one was told WAIT. A run that never met a case proves nothing about it.
  struct Counts {
    uint64_t pulls = 0;  // With a clock, under a bound.
    uint64_t parked = 0;
    uint64_t told = 0;
    uint64_t freed_by_clock = 0;
    uint64_t freed_by_silence = 0;
    uint64_t freed_by_configuration = 0;

    void Add(const Counts& other);
  };

  BoundWitness(Core* core, const Options& options)
      : core_(*core), options_(options) {}

  void Start(Time now, Outbox* out) override { core_.Start(now, out); }
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return core_.next_tick(); }
  void Drain(Time now, Outbox* out) override;
  std::string overdue(Time now) const override { return core_.overdue(now); }

  const Counts& counts() const { return counts_; }

 private:
  enum class Cause { kClock, kSilence, kConfiguration };
  struct Session {
    v1::SessionId generation;
    uint64_t start = 0;
    uint64_t clock = 0;
    Time heard;
    bool no_input = false;
    uint64_t told = 0;
  };
  struct Pull {
    v1::PullRequest request;
    Time since;
    bool is_new = true;
  };

  bool bounded() const {
    return configuration_.consistency().mode() == v1::Consistency::BOUNDED;
  }
  void Wake(Time now);
  void TakeOver(const v1::Configuration& told, Time now);
  void Hear(const v1::Header& header, uint64_t clock, Time now);
  void HearTell(const v1::TellClockRequest& told, Time now);
  // The worker and the session of the lowest clock of those that count.
  absl::optional<std::pair<uint32_t, Session>> Slowest(Time now) const;
  bool MayRead(const v1::PullRequest& pull, Time now) const;
  void CheckAnswers(const Outbox& out, Time now);
  void CheckAnswer(const Pull& pull, const absl::Status& status, Time now);
  void CheckOpen(Time now);
  void Fail(const std::string& sentence) const;

  Core& core_;
  const Options options_;
  v1::Configuration configuration_;
  std::map<uint32_t, Session> sessions_;
  std::map<CallId, Pull> open_;  // Pulls with a clock that have no answer.
  Time woken_;
  Cause cause_ = Cause::kClock;
  Counts counts_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_BOUND_WITNESS_H_
