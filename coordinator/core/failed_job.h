#ifndef PARAMD_COORDINATOR_CORE_FAILED_JOB_H_
#define PARAMD_COORDINATOR_CORE_FAILED_JOB_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/core.h"

namespace paramd {

// What is left of a coordinator whose job has failed, or was stopped by an
// operator: it tells all processes why and with which exit code, exactly as
// they hear of a good end, and exits with that when everybody knows, or has had
// the time to.
//
//   servers told, ──► everybody knows ──► servers leave ──► exit
//   workers refused
//
// Nothing of it is logged: the next start in this run's directory goes on from
// its newest checkpoint.
//
// Not thread-safe: a core, in place of the coordinator's.
class FailedJob {
 public:
  // A server that was heard, and is of this run; or the other place of one.
  struct Server {
    uint32_t index = 0;  // By which it is called.
    v1::Header header;   // Names the process that is meant.
  };
  // One that waits for an answer.
  struct Call {
    uint32_t worker = 0;
    CallId call = 0;
  };
  struct Options {
    absl::Status why;  // REQUIRES: EndsTheJob.
    std::vector<Server> servers;
    // Those that may still ask: all but the chief's own.
    std::set<uint32_t> workers;
    std::vector<Call> calls;
    // For the workers to ask, and then for the servers to answer.
    absl::Duration finish_timeout;
  };

  // Refuses the calls and begins to tell the servers. Whoever calls later is
  // refused in the same way, operators too.
  FailedJob(Options options, Time now, Outbox* out);

  // As of a core.
  void Receive(const Message& message, Time now, Outbox* out);
  void Tick(Time now, Outbox* out);
  Time next_tick() const;
  // The process is to end soon: workers that have not asked are not waited for,
  // and servers have a moment.
  void Hurry(Time now, Outbox* out);
  std::string waiting_for() const;

 private:
  // How much a server has been told, and is being.
  enum class Told { kNothing, kTheEnd, kEverybodyKnows };
  struct ToldServer {
    Server server;
    Told told = Told::kNothing;
    Told asked = Told::kNothing;
    CallId call = 0;  // Under way, or 0.
    Time ask_at;
  };

  // Answers a call, of nobody if that is of worker 0: its own.
  void Refuse(const Call& call, Time now, Outbox* out);
  void Advance(Time now, Outbox* out);
  void Tell(ToldServer* server, Outbox* out);
  void OnReply(const Message& message, Time now);

  const absl::Status why_;
  const v1::Finished finished_;
  const absl::Duration finish_timeout_;
  std::vector<ToldServer> servers_;
  std::set<uint32_t> yet_to_hear_;
  bool everybody_knows_ = false;
  Time may_ask_again_;  // A worker whose answer was lost, up to here.
  Time deadline_;       // Of the workers; then of the servers.
  CallId next_call_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_FAILED_JOB_H_
