#include "worker/core/session_state.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/strategy.h"
#include "proto/configuration_changes.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {

absl::StatusOr<std::unique_ptr<SessionState>> SessionState::Create(
    const Options& options, const v1::JoinReply& reply,
    Computation* computation, Time now) {
  Session session(options.session);
  RETURN_IF_ERROR(session.Configure(reply.configuration(), reply.generation()));
  std::unique_ptr<SessionState> state(
      new SessionState(options, reply, std::move(session), computation, now));
  state->configuration_ = reply.configuration();
  state->TakeMode(reply.configuration());
  return state;
}

SessionState::SessionState(const Options& options, const v1::JoinReply& reply,
                           Session configured, Computation* computation,
                           Time now)
    : session(std::move(configured)),
      input(now),
      heartbeats(reply.configuration().version().term(), now),
      clock_teller(absl::Milliseconds(options.plan.job->heartbeat_ms())),
      steps(&session, computation, options.layers_from_bytes, options.observer,
            options.weight_memory == nullptr ? WeightMemory()
                                             : *options.weight_memory,
            ConcurrentSteps(options.plan.job->pipeline())),
      options_(options),
      generation_(reply.generation()),
      start_clock_(reply.start_clock()) {}

absl::Status SessionState::Configure(const v1::Configuration& told) {
  if (told.version() < configuration_.version()) return absl::OkStatus();
  auto whole = Expand(configuration_, told);
  // Then the next heartbeat asks for the whole.
  takes_changes_ = whole.ok();
  if (!whole.ok()) return absl::OkStatus();
  configuration_ = *std::move(whole);
  const absl::Status status = session.Configure(configuration_, generation_);
  TakeMode(configuration_);
  return status;
}

void SessionState::TakeMode(const v1::Configuration& configuration) {
  clock_teller.Configure(configuration);
  for (const v1::WorkerMember& member : configuration.workers()) {
    if (member.index() == options_.plan.worker &&
        member.generation() == generation_) {
      start_clock_ = std::max(start_clock_, member.start_clock());
    }
  }
  if (plan == nullptr || !plan->Fits(configuration.consistency().mode())) {
    plan = Plan::Create(configuration, options_.plan, &steps, &input);
  }
  plan->Configure(configuration, generation_);
}

v1::Header SessionState::MakeHeader() const {
  v1::Header header;
  *header.mutable_configuration() = session.configuration_version();
  header.set_term(header.configuration().term());
  header.set_worker(options_.plan.worker);
  header.set_incarnation(options_.incarnation);
  *header.mutable_generation() = generation_;
  header.set_sequence(steps.pushes_ended());
  *header.mutable_snapshot() = cut.stamp();
  return header;
}

void SessionState::NoteFirstPush(Outbox* out) {
  if (std::exchange(first_push_noted_, true)) return;
  out->Note(absl::StrCat("first push of generation ", VersionName(generation_),
                         " acknowledged"),
            {{"generation", VersionName(generation_)}});
}

// ---- cuts -------------------------------------------------------------------

void SessionState::CutIfAsked() {
  const v1::SnapshotNumber& snapshot = heartbeats.last_reply().snapshot();
  if (!cut.IsAsked(snapshot)) return;
  v1::WorkerCut made = PresentCut();
  *made.mutable_snapshot() = snapshot;
  cut.Make(made);
}

v1::WorkerCut SessionState::PresentCut() const {
  v1::WorkerCut present;
  present.set_sequence(steps.pushes_started());
  const auto& pushing = steps.pushing();
  present.set_acknowledged(!pushing.has_value());
  absl::optional<InputLeases::Range> open;
  if (pushing.has_value()) open = pushing->input;
  input.FillCut(open, &present);
  return present;
}

v1::WorkerCut SessionState::MakeCut(bool leaving) const {
  if (leaving) return PresentCut();
  const v1::HeartbeatReply& news = heartbeats.last_reply();
  if (!IsZero(news.snapshot()) && news.snapshot() == cut.stamp()) {
    return cut.Said(steps.pushes_ended());
  }
  return news.stop() ? PresentCut() : v1::WorkerCut();
}

// ---- heartbeats -------------------------------------------------------------

v1::HeartbeatRequest SessionState::MakeHeartbeat(
    const v1::Evaluation& evaluation, bool leaving) const {
  const v1::HeartbeatReply& news = heartbeats.last_reply();
  v1::HeartbeatRequest request;
  *request.mutable_header() = MakeHeader();
  request.set_takes_changes(takes_changes_);
  request.set_clock(clock());
  request.set_no_input(plan->finished());
  request.set_leaving(leaving);
  *request.mutable_cut() = MakeCut(leaving);
  *request.mutable_evaluation() = evaluation;
  request.set_state(news.state());
  *request.mutable_snapshot() = news.snapshot();
  request.set_stop(news.stop());
  request.set_left_out_step(news.left_out_step());
  request.set_evaluate_epoch(news.evaluate_epoch());
  request.set_evaluate_final(news.evaluate_final());
  request.set_test_set(options_.test_set);
  if (news.has_test_part()) *request.mutable_test_part() = news.test_part();
  if (news.tell_held()) {
    *request.mutable_held() = input.Held(heartbeats.term());
  }
  return request;
}

bool SessionState::HasNewsToTell(const v1::Evaluation& evaluation,
                                 bool leaving) const {
  if (!heartbeats.is_open()) return false;
  const v1::HeartbeatRequest& last = heartbeats.last_request();
  const v1::HeartbeatReply& news = heartbeats.last_reply();
  if (!IsZero(news.snapshot()) || news.stop()) {
    const v1::WorkerCut present = MakeCut(leaving);
    if (present.snapshot() != last.cut().snapshot() ||
        present.sequence() != last.cut().sequence() ||
        present.acknowledged() != last.cut().acknowledged()) {
      return true;
    }
  }
  return plan->finished() != last.no_input() || leaving != last.leaving() ||
         evaluation.epoch() != last.evaluation().epoch() ||
         evaluation.final() != last.evaluation().final();
}

// Who has nothing to do for now is not waited for; it may have again, if
// another worker leaves its portions behind.
void SessionState::TellClock(bool draining, WorkerTurn* turn) {
  const bool idle =
      input.empty() && steps.at_rest() && (input.none_now() || input.no_more());
  const ClockTeller::State state = {.clock = clock(),
                                    .no_input = draining || idle};
  if (clock_teller.IsDue(state, turn->now)) {
    clock_teller.Tell(state, MakeHeader(), turn->now, turn->next_call(),
                      turn->out);
  }
}

}  // namespace paramd
