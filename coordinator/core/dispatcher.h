#ifndef PARAMD_COORDINATOR_CORE_DISPATCHER_H_
#define PARAMD_COORDINATOR_CORE_DISPATCHER_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/time.h"
#include "coordinator/core/coordinator_parts.h"
#include "coordinator/core/due_members.h"
#include "coordinator/core/fact_router.h"
#include "coordinator/core/failed_job.h"
#include "coordinator/core/job_report.h"
#include "coordinator/core/look_pace.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "tensor/core.h"
#include "tensor/message.h"

namespace paramd {

// A coordinator from the inside: routes each event to the part that it is for,
// has the facts delivered that it raises, and then asks the parts in the order
// of AdvanceParts what they have to do.
//
// Invariants: what must survive is appended to the configuration log before
// anyone is told. A worker learns its generation only when every server has it
// in its configuration. Every server has at most one control call under way,
// and in sync mode one Decide beside it. There, sessions and contributors
// change only while every server has applied the newest decided step.
//
// Advance looks at every member. In a job of more than `few_members` it does
// not follow each event (LookPace). So parts may hear of several events before
// they do what is due, and decide by the state at that time.
//
// For most of its time such a job is quiet: it trains, and nothing is under way
// that more than one member is asked for. Then what members say ten times a
// second is followed by a look at the one that has said it (DueMembers).
//
// Not thread-safe: the core of a Coordinator, which owns it.
class Dispatcher {
 public:
  explicit Dispatcher(const CoordinatorOptions& options);

  // As of Coordinator.
  void Start(Time now, Outbox* out);
  void Receive(Message message, Time now, Outbox* out);
  void Completed(IoResult result, Time now, Outbox* out);
  void Tick(Time now, Outbox* out);
  Time next_tick() const;
  void Drain(Time now, Outbox* out);
  // Whom to tell that the job fails with `why`, or is stopped. Nobody, if that
  // is no end of the job (see EndsTheJob), or it fails where the servers are
  // not known to be of this run, or all are being told of a good end.
  absl::optional<FailedJob::Options> ToTell(const absl::Status& why,
                                            Time now) const;
  std::string waiting_for() const { return report_.waiting_for(); }
  std::string overdue(Time now) const { return report_.overdue(now); }
  void FillStatus(v1::StatusReply* status) const {
    report_.FillStatus(last_event_, status);
  }

 private:
  // ---- one event
  void NoticePause(Time now);
  absl::optional<uint32_t> ServerAt(uint32_t peer) const;
  absl::optional<uint32_t> OtherAt(uint32_t peer) const;
  void RouteReply(const Message& message, Turn* turn);
  void Route(const Message& message, Turn* turn);
  void AskAtOnce(uint32_t peer, Time now);
  void OnHeartbeat(const Message& message, const v1::HeartbeatRequest& request,
                   Turn* turn);
  void OnDrain(const Message& message, const v1::DrainRequest& request,
               Turn* turn);
  void OnSet(const Message& message, const v1::SetRequest& request, Turn* turn);
  void OnTakePortion(const Message& message, const v1::PortionRequest& request,
                     Turn* turn);

  // ---- after it: each part does what is due, in this order
  // At once, or with what comes soon after it, as the class says. `from`: whose
  // usual message it was; unset: time has passed.
  void AdvanceSoon(LookPace::Event event, absl::optional<PeerId> from,
                   Turn* turn);
  void AdvanceFew(absl::optional<PeerId> from, Turn* turn);
  void Advance(Turn* turn);
  void AdvanceParts(Turn* turn);
  Time NextDue() const;
  // What follows from entries of the log that had to wait.
  void FollowLog(Turn* turn);
  void AdvanceStart(Turn* turn);
  void AdvanceJoins(Turn* turn);
  // Ends silent sessions and, if all input is used, the training; or takes a
  // checkpoint.
  void AdvanceRunning(Turn* turn);
  void AdvanceEvaluation(Turn* turn);
  void AdvanceStop(Turn* turn);
  void AdvanceLeaving(Turn* turn);
  void AdvanceRequested(Turn* turn);
  void AdvanceTelling(Turn* turn);
  bool AllInputUsed() const;

  CoordinatorParts parts_;
  FactRouter facts_;
  const JobReport report_;
  // The server that a place may be of, by peer.
  absl::flat_hash_map<uint32_t, uint32_t> server_of_;
  Time next_periodic_;
  Time last_event_;
  DueMembers due_members_;
  LookPace pace_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_DISPATCHER_H_
