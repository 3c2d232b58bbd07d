#include "coordinator/core/sessions.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "proto/member_name.h"
#include "proto/refusal.h"
#include "proto/test_part.h"

namespace paramd {
namespace {

v1::HeartbeatReply ReplyTo(const WorkerRecord& worker,
                           const Sessions::News& news,
                           const LiveConfiguration& live) {
  const v1::Configuration& configuration = live.get();
  const v1::Header& header = worker.last.header();
  v1::HeartbeatReply reply;
  if (configuration.version() > header.configuration()) {
    *reply.mutable_configuration() =
        live.ForWorker(header.worker(), worker.last.takes_changes()
                                            ? header.configuration()
                                            : v1::ConfigurationVersion());
  }
  reply.set_term(configuration.version().term());
  reply.set_state(configuration.state());
  if (!IsZero(news.snapshot)) *reply.mutable_snapshot() = news.snapshot;
  reply.set_stop(news.stop);
  reply.set_left_out_step(news.left_out_step);
  reply.set_evaluate_epoch(news.evaluate_epoch);
  reply.set_evaluate_final(news.evaluate_final);
  if (news.test_part.has_value()) *reply.mutable_test_part() = *news.test_part;
  for (const v1::EpochTraining& training : news.training) {
    *reply.add_training() = training;
  }
  return reply;
}

// Whether its newest heartbeat does not know all of it.
bool IsNewTo(const WorkerRecord& worker, const Sessions::News& news,
             const v1::Configuration& configuration) {
  const v1::HeartbeatRequest& known = worker.last;
  return configuration.version() > known.header().configuration() ||
         configuration.state() != known.state() ||
         news.snapshot != known.snapshot() || news.stop != known.stop() ||
         news.left_out_step != known.left_out_step() ||
         news.evaluate_epoch != known.evaluate_epoch() ||
         news.evaluate_final != known.evaluate_final() ||
         !SamePart(news.test_part.value_or(v1::TestPart()), known.test_part());
}

void AnswerKept(WorkerRecord* worker, const Sessions::News& news, Turn* turn) {
  turn->out->Reply(worker->parked, std::make_unique<v1::HeartbeatReply>(
                                       ReplyTo(*worker, news, *turn->live)));
  worker->parked = 0;
}

void FillMember(const WorkerRecord& worker, const JobView& job, Time now,
                v1::Member* member) {
  // Its first heartbeat says that it was told its generation.
  member->set_state(!job.IsLive(worker, now)   ? v1::Member::LOST
                    : worker.last.number() > 0 ? v1::Member::ALIVE
                                               : v1::Member::STARTING);
  *member->mutable_generation() = Unnamed(worker.generation);
  member->set_incarnation(worker.incarnation);
  member->set_host(worker.host);
  member->set_pid(worker.pid);
  member->set_address(worker.address);
  member->set_silent_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(now - worker.heard)));
  member->set_pushes(worker.acknowledged);
  member->set_clock(worker.last.clock());
}

}  // namespace

// ---- beginning --------------------------------------------------------------

void Sessions::Admit(const Admitted& admitted, Turn* turn) {
  const v1::JoinRequest& request = admitted.request;
  WorkerRecord worker;
  worker.incarnation = request.incarnation();
  worker.left_sessions = request.left_sessions();
  worker.generation = turn->live->NewGeneration<v1::SessionId>();
  worker.host = request.host();
  worker.pid = request.pid();
  worker.heard = turn->now;
  if (!start_clock_.has_value()) {
    start_clock_ = StartClock(turn->job, turn->now);
  }
  worker.start_clock = *start_clock_;
  worker.address = request.address();
  sessions_[admitted.worker] = std::move(worker);
  lost_.erase(admitted.worker);
}

void Sessions::Announce(Turn* turn) {
  start_clock_.reset();
  const bool admitted =
      std::any_of(sessions_.begin(), sessions_.end(),
                  [](const auto& s) { return IsZero(s.second.admitted); });
  if (!admitted) return;
  turn->live->SetWorkers(sessions_);
  turn->live->NextVersion();
  OnConfigured(turn->job.configuration.version());
}

void Sessions::OnConfigured(const v1::ConfigurationVersion& version) {
  for (auto& [index, worker] : sessions_) {
    if (IsZero(worker.admitted)) worker.admitted = version;
  }
}

void Sessions::BeginLeases(Time now) {
  for (auto& [index, worker] : sessions_) worker.heard = now;
}

// ---- what they say ----------------------------------------------------------

bool Sessions::Accept(const Message& message, const v1::Header& header,
                      Turn* turn) {
  const JobView& job = turn->job;
  const std::string name = absl::StrCat("worker-", header.worker());
  const auto refuse = [&](const absl::Status& why) {
    turn->out->Refuse(message.call, why);
    return false;
  };
  if (message.from != PeerId::Worker(header.worker())) {
    return refuse(Refuse(
        v1::Refusal::NOT_ALLOWED, name,
        absl::StrCat(PeerName(message.from), " speaks in the name of ", name)));
  }
  if (job.phase < JobPhase::kFilling) {
    // Which sessions go on is not known yet.
    const std::string whom = job.waiting_for();
    return refuse(RefuseForNow(
        v1::Refusal::NOT_READY, whom, job.heartbeat(),
        absl::StrCat("a coordinator that has just begun waits for ", whom)));
  }
  const auto found = sessions_.find(header.worker());
  if (found == sessions_.end() ||
      found->second.generation != header.generation()) {
    RefuseStranger(message, header, turn);
    return false;
  }
  WorkerRecord& worker = found->second;
  if (header.incarnation() != 0 && header.incarnation() != worker.incarnation) {
    // Two runs count their generations alike.
    return refuse(Refuse(
        v1::Refusal::OTHER_JOB, "session",
        absl::StrCat(WorkerName(header.worker(), header.generation()),
                     " is process ", worker.pid, " on ", worker.host,
                     " in run ", job.configuration.run_id(),
                     ", which answers here; who calls is of another run")));
  }
  if (worker.fencing) {
    RefuseStranger(message, header, turn);
    return false;
  }
  worker.heard = turn->now;
  return true;
}

void Sessions::RefuseStranger(const Message& message, const v1::Header& header,
                              Turn* turn) {
  const std::string name = absl::StrCat("worker-", header.worker());
  const auto present = sessions_.find(header.worker());
  if (present != sessions_.end() &&
      header.generation() < present->second.generation) {
    turn->out->Refuse(message.call,
                      Refuse(v1::Refusal::FENCED, name,
                             absl::StrCat(name, " was replaced by process ",
                                          present->second.pid, " on ",
                                          present->second.host)));
    return;
  }
  const bool ended = turn->job.phase >= JobPhase::kTellingEnd;
  turn->out->Refuse(
      message.call,
      Refuse(ended ? v1::Refusal::JOB_FINISHED : v1::Refusal::NOT_READY,
             "session",
             absl::StrCat(name, " has no session here: join again")));
  if (ended) turn->Raise(HeardOfEnd{header.worker()});
}

bool Sessions::Accept(const Message& message,
                      const v1::HeartbeatRequest& request, Turn* turn) {
  if (!Accept(message, request.header(), turn)) return false;
  if (request.number() >
      sessions_.at(request.header().worker()).last.number()) {
    return true;
  }
  turn->out->Refuse(message.call,
                    Refuse(v1::Refusal::SUPERSEDED, "heartbeat",
                           "a later heartbeat of this session is known"));
  return false;
}

void Sessions::Keep(const Message& message, const v1::HeartbeatRequest& request,
                    NewsOf news_of, Turn* turn) {
  const uint32_t index = request.header().worker();
  WorkerRecord& worker = sessions_.at(index);
  if (worker.parked != 0) AnswerKept(&worker, news_of(index), turn);
  worker.last = request;
  worker.last.clear_tested();  // May be large.
  OnPushes(index, request.header().sequence());
  worker.parked = message.call;
  worker.parked_until = turn->now + turn->job.heartbeat();
}

void Sessions::Answer(NewsOf news_of, Turn* turn) {
  for (auto& [index, worker] : sessions_) {
    if (worker.parked != 0) AnswerIfDue(&worker, news_of(index), turn);
  }
}

void Sessions::AnswerOne(uint32_t index, NewsOf news_of, Turn* turn) {
  const auto worker = sessions_.find(index);
  if (worker == sessions_.end() || worker->second.parked == 0) return;
  AnswerIfDue(&worker->second, news_of(index), turn);
}

// One that acknowledges the end has nothing more to wait for.
void Sessions::AnswerIfDue(WorkerRecord* worker, const News& news, Turn* turn) {
  if (turn->now >= worker->parked_until ||
      IsNewTo(*worker, news, turn->job.configuration) ||
      worker->last.state() == v1::FINISHED) {
    AnswerKept(worker, news, turn);
  }
}

Time Sessions::due(uint32_t index) const {
  const auto worker = sessions_.find(index);
  return worker == sessions_.end() || worker->second.parked == 0
             ? Time::Never()
             : worker->second.parked_until;
}

void Sessions::OnHeard(uint32_t worker, Time now) {
  sessions_.at(worker).heard = now;
}

void Sessions::OnPushes(uint32_t index, uint64_t pushes) {
  WorkerRecord& worker = sessions_.at(index);
  worker.acknowledged = std::max(worker.acknowledged, pushes);
}

void Sessions::OnPause(absl::Duration pause) {
  for (auto& [index, worker] : sessions_) worker.heard = worker.heard + pause;
}

Time Sessions::next_tick() const {
  Time next = Time::Never();
  for (const auto& [index, worker] : sessions_) {
    if (worker.parked != 0) next = std::min(next, worker.parked_until);
  }
  return next;
}

// ---- ends -------------------------------------------------------------------

void Sessions::FenceSilent(Turn* turn) {
  for (const auto& [index, worker] : sessions_) {
    if (turn->now - worker.heard > turn->job.lease()) Fence(index, turn);
  }
}

void Sessions::Fence(uint32_t index, Turn* turn) {
  WorkerRecord& worker = sessions_.at(index);
  if (worker.fencing) return;
  worker.fencing = true;
  turn->out->Note(
      absl::StrCat("worker-", index, " (process ", worker.pid, " on ",
                   worker.host, ") is gone after ", worker.acknowledged,
                   " pushes; what it had left of its input is handed "
                   "out again"),
      {{"worker", index},
       {"pid", worker.pid},
       {"host", worker.host},
       {"pushes", worker.acknowledged}});
  turn->Raise(SessionFenced{index});
}

void Sessions::LogFence(uint32_t index, Turn* turn) {
  WorkerRecord& worker = sessions_.at(index);
  worker.fence_logged = true;
  v1::LogEntry entry;
  entry.mutable_fence()->set_worker(index);
  *entry.mutable_fence()->mutable_generation() = worker.generation;
  IoHandler handler = [this, index](const IoResult& result, Turn* later) {
    OnFenced(index, result, later);
  };
  // In sync mode no step is decided before the log has all of them.
  const bool may_wait =
      !turn->job.IsSync() ||
      std::any_of(sessions_.begin(), sessions_.end(), [](const auto& s) {
        return s.second.fencing && !s.second.fence_logged;
      });
  may_wait ? turn->AppendPatiently(std::move(entry), std::move(handler))
           : turn->Append(std::move(entry), std::move(handler));
}

void Sessions::OnFenced(uint32_t index, const IoResult& result, Turn* turn) {
  if (!result.status.ok()) {
    turn->out->Exit(result.status);
    return;
  }
  auto ended = sessions_.extract(index);
  WorkerRecord& worker = ended.mapped();
  if (worker.parked != 0) {
    turn->out->Refuse(
        worker.parked,
        worker.last.leaving()
            ? Refuse(v1::Refusal::FENCED, absl::StrCat("worker-", index),
                     absl::StrCat("worker-", index, " has left"))
            : Refuse(v1::Refusal::NOT_READY, "session",
                     absl::StrCat("worker-", index,
                                  " has no session any more: join again")));
  }
  highest_clock_ = std::max(highest_clock_, worker.clock());
  // One that no list names is forgotten.
  const bool is_awaited = !worker.last.leaving() && turn->job.IsListed(index);
  if (is_awaited) lost_[index] = worker;
  turn->live->SetWorkers(sessions_);
  turn->live->NextVersion();
  turn->Raise(SessionEnded{index, std::move(worker)});
}

void Sessions::EndAll(absl::string_view why, Turn* turn) {
  highest_clock_ = HighestClock();
  for (const auto& [index, worker] : sessions_) {
    if (worker.parked == 0) continue;
    turn->out->Refuse(worker.parked,
                      Refuse(v1::Refusal::NOT_READY, "session", why));
  }
  sessions_.clear();
  turn->live->SetWorkers(sessions_);
}

// ---- clocks -----------------------------------------------------------------

uint64_t Sessions::HighestClock() const {
  uint64_t highest = highest_clock_;
  for (const auto& [index, worker] : sessions_) {
    highest = std::max(highest, worker.clock());
  }
  return highest;
}

// At its own minimum a joiner would be waited for until it had made up all that
// was done before it came.
uint64_t Sessions::StartClock(const JobView& job, Time now) const {
  bool any = false;
  uint64_t lowest = 0;
  for (const auto& [index, worker] : sessions_) {
    if (!job.IsLive(worker, now) || worker.last.no_input()) continue;
    lowest = any ? std::min(lowest, worker.clock()) : worker.clock();
    any = true;
  }
  return any ? lowest : HighestClock();
}

void Sessions::RaiseStartClocks(Turn* turn) {
  const uint64_t highest = HighestClock();
  for (auto& [index, worker] : sessions_) {
    worker.start_clock += highest - worker.clock();
  }
  turn->live->SetWorkers(sessions_);
}

// ---- for people -------------------------------------------------------------

void Sessions::FillStatus(const JobView& job, Time now,
                          absl::FunctionRef<bool(uint32_t)> is_joining,
                          v1::JobStats* status) const {
  uint64_t given_up = 0;
  for (uint32_t w = 0; w < job.options.workers; ++w) {
    v1::Member* const member = AddMember(v1::WORKER, w, status);
    const auto present = sessions_.find(w);
    const auto lost = lost_.find(w);
    if (present != sessions_.end()) {
      FillMember(present->second, job, now, member);
      given_up += present->second.last.stats().given_up();
    } else if (is_joining(w)) {
      member->set_state(v1::Member::STARTING);
    } else if (lost != lost_.end()) {
      FillMember(lost->second, job, now, member);
    }
  }
  given_up += FillJoined(job, now, is_joining, status);
  status->set_given_up(given_up);
}

uint64_t Sessions::FillJoined(const JobView& job, Time now,
                              absl::FunctionRef<bool(uint32_t)> is_joining,
                              v1::JobStats* status) const {
  const uint32_t most = job.options.job.max_joined_workers();
  // A chief that begins anew with a lower limit has those that were there.
  const uint32_t end =
      std::max(job.options.workers + most,
               sessions_.empty() ? 0 : sessions_.rbegin()->first + 1);
  uint64_t given_up = 0;
  uint32_t count = 0;
  for (uint32_t w = job.options.workers; w < end; ++w) {
    const auto present = sessions_.find(w);
    if (present == sessions_.end() && !is_joining(w)) continue;
    v1::Member* const member = AddMember(v1::WORKER, w, status);
    member->set_joined(true);
    member->set_state(v1::Member::STARTING);
    if (present == sessions_.end()) continue;
    FillMember(present->second, job, now, member);
    given_up += present->second.last.stats().given_up();
    ++count;
  }
  status->set_joined_workers(count);
  status->set_max_joined_workers(most);
  return given_up;
}

}  // namespace paramd
