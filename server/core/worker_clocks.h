#ifndef PARAMD_SERVER_CORE_WORKER_CLOCKS_H_
#define PARAMD_SERVER_CORE_WORKER_CLOCKS_H_

#include <cstdint>
#include <map>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {

// How far each worker is, as far as one server has heard: the clock it told
// last, when it was heard last, and whether it has input.
//
// A worker counts while the configuration names it, it has input and it was
// heard within the lease. One that is heard again counts again, with the clock
// it tells: its clock is the same number for every server, so two of them can
// never wait for each other's reader.
//
// Invariant: what is known of a clock is never more than the clock is. Only the
// sessions of the configuration are kept, hence the bound.
//
// Not thread-safe: lives inside a Shard.
class WorkerClocks {
 public:
  // The worker that everybody else waits for.
  struct Slowest {
    uint32_t worker = 0;
    v1::SessionId generation;
    uint64_t clock = 0;
    Time heard;
  };

  // Sessions and lease are those of `configuration` from now on. One that is
  // new counts from now on, with its start clock; one whose start clock rose is
  // as much further on.
  void Configure(const v1::Configuration& configuration, Time now);
  // All count again, as heard now: nobody listened before.
  void CountAll(Time now);

  // A message of a session that says its clock. Nothing changes if the session
  // is not known or if more is known already, but that it is alive.
  void Hear(const v1::Header& header, uint64_t clock, Time now);
  // As Hear; also whether it has input, unless a later tell came before.
  void Tell(const v1::TellClockRequest& told, Time now);
  // This process stood still for so long: the silence was not the workers'.
  void Forgive(absl::Duration pause);

  // The one of the lowest clock, of the lowest index among several; unset if
  // nobody counts.
  absl::optional<Slowest> slowest(Time now) const;
  // When one of those that count no longer does if it stays silent.
  Time next_expiry(Time now) const;

 private:
  struct Session {
    v1::SessionId generation;
    uint64_t start_clock = 0;
    uint64_t clock = 0;
    Time heard;
    bool no_input = false;
    uint64_t told = 0;  // The number of the newest tell.
  };

  Session* Find(const v1::Header& header);
  bool Counts(const Session& session, Time now) const;

  absl::Duration lease_;
  std::map<uint32_t, Session> sessions_;  // By worker.
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_WORKER_CLOCKS_H_
