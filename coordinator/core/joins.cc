#include "coordinator/core/joins.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "coordinator/core/run_record.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// A parked join is answered after this at the latest, below the caller's own
// deadline; it then asks again.
constexpr absl::Duration kJoinPatience = absl::Seconds(2);

absl::Status JobFinished(absl::string_view entity) {
  return Refuse(v1::Refusal::JOB_FINISHED, entity, "the job is finished");
}

// Whether somebody of this job asks, and for itself.
absl::Status CheckJoin(PeerId from, const v1::JoinRequest& request,
                       const CoordinatorOptions& options) {
  const uint32_t index = request.task().index();
  const std::string name = absl::StrCat("worker-", index);
  const uint32_t first = request.joined() ? options.workers : 0;
  const uint32_t end =
      options.workers +
      (request.joined() ? options.job.max_joined_workers() : 0);
  if (request.task().type() != v1::WORKER || index < first || index >= end) {
    return Refuse(
        v1::Refusal::INVALID, name,
        absl::StrCat(name, " is not one of the ", end - first, " workers ",
                     request.joined() ? "that may join this job beside those "
                                        "that its cluster names"
                                      : "of this job"));
  }
  if (from != PeerId::Worker(index)) {
    return Refuse(v1::Refusal::NOT_ALLOWED, name,
                  absl::StrCat(PeerName(from), " joins in the name of ", name));
  }
  if (request.job_digest() != options.job_digest) {
    return Refuse(
        v1::Refusal::OTHER_JOB, name,
        absl::StrCat(name, " has job-wide settings with digest ",
                     request.job_digest(), ", the chief ", options.job_digest,
                     ": give both the same job file"));
  }
  const std::string difference = DataDifference(request.data(), options.data);
  if (!difference.empty()) {
    // Data of a program are in no directory.
    const auto in = [](absl::string_view directory, absl::string_view end) {
      return directory.empty() ? ""
                               : absl::StrCat(", in '", directory, "'", end);
    };
    return Refuse(
        v1::Refusal::OTHER_JOB, name,
        absl::StrCat(name, " on ", request.host(),
                     " has read other training data",
                     in(request.data().directory(), ","), " than the chief on ",
                     options.data.host(), in(options.data.directory(), ""),
                     ": ", difference, ": give both the same data"));
  }
  return absl::OkStatus();
}

absl::Status TaskTaken(uint32_t index, const WorkerRecord& present,
                       const JobView& job) {
  const std::string name = absl::StrCat("worker-", index);
  return Refuse(
      v1::Refusal::TASK_TAKEN, name,
      absl::StrCat(name, " is process ", present.pid, " on ", present.host,
                   ", which is alive: ",
                   job.IsListed(index)
                       ? "give this one another index, or stop that one"
                       : "start this one again, which gives it another index, "
                         "or give it a certificate of its own"));
}

}  // namespace

bool Joins::OnJoin(const Message& message, const v1::JoinRequest& request,
                   Turn* turn) {
  const JobView& job = turn->job;
  const uint32_t index = request.task().index();
  const std::string name = absl::StrCat("worker-", index);
  const auto refuse = [&](const absl::Status& why) {
    turn->out->Refuse(message.call, why);
  };
  const absl::Status ours = CheckJoin(message.from, request, job.options);
  if (!ours.ok()) {
    refuse(ours);
    return false;
  }
  if (job.phase >= JobPhase::kTellingEnd) {
    turn->Raise(HeardOfEnd{index});
    refuse(JobFinished(name));
    return true;
  }
  const auto worker = job.workers.find(index);
  const bool is_present = worker != job.workers.end() &&
                          worker->second.incarnation == request.incarnation();
  const auto known = joining_.find(index);
  const bool is_known =
      known != joining_.end() &&
      known->second.request.incarnation() == request.incarnation();
  const uint64_t left =
      std::max(is_present ? worker->second.left_sessions : 0,
               is_known ? known->second.request.left_sessions() : 0);
  if (request.left_sessions() < left) {
    refuse(Refuse(v1::Refusal::SUPERSEDED, name,
                  "a later join of this process is known"));
    return true;
  }
  if (is_present && worker->second.left_sessions == left) {
    turn->Raise(WorkerHeard{index});
  }
  JoiningRecord& joining = joining_[index];
  if (joining.call != 0) {
    // The same process asks again, or a second one: one call is kept.
    turn->out->Refuse(joining.call, RefuseForNow(v1::Refusal::NOT_READY, "",
                                                 absl::Milliseconds(100),
                                                 "asked again meanwhile"));
  }
  if (joining.request.incarnation() != request.incarnation()) {
    joining.since = turn->now;
  }
  joining.call = message.call;
  joining.request = request;
  joining.answer_until = turn->now + kJoinPatience;
  return true;
}

// ---- who gets a session -----------------------------------------------------

void Joins::Advance(bool held, Turn* turn) {
  to_answer_.clear();
  if (joining_.empty()) return;
  const auto told = turn->job.VersionOfAll();
  for (const auto& [index, joining] : joining_) {
    AdvanceOne(index, held, told, turn);
  }
}

// Who was admitted before is always answered: it may not know.
void Joins::AdvanceOne(uint32_t index, bool held,
                       const absl::optional<v1::ConfigurationVersion>& told,
                       Turn* turn) {
  const JobView& job = turn->job;
  JoiningRecord& joining = joining_.at(index);
  const v1::JoinRequest& request = joining.request;
  const auto found = job.workers.find(index);
  if (found == job.workers.end()) {
    // Without a call it has to ask again.
    if (!held && joining.call != 0) turn->Raise(Admitted{index, request});
    return;
  }
  const WorkerRecord& present = found->second;
  if (present.fencing) return;  // Its successor gets a generation of its own.
  if (present.incarnation == request.incarnation()) {
    if (present.left_sessions < request.left_sessions()) {
      // The process says that it has left that session, whatever told it to.
      turn->Raise(SessionOver{index});
    } else if (joining.call != 0 && told.has_value() &&
               !(*told < present.admitted)) {
      to_answer_.push_back(index);
    }
  } else if (request.replaces() == present.incarnation) {
    // Whoever started this one saw the first one end.
    turn->Raise(SessionOver{index});
  } else if (present.heard > joining.since + 2 * job.heartbeat()) {
    // Not by what was still under way when it died.
    if (joining.call != 0) {
      turn->out->Refuse(joining.call, TaskTaken(index, present, job));
    }
    joining.call = 0;
    joining.since = turn->now;
  } else if (!job.IsLive(present, turn->now)) {
    turn->Raise(SessionOver{index});
  }
}

void Joins::Answer(Turn* turn) {
  for (const uint32_t index : std::exchange(to_answer_, {})) {
    const WorkerRecord& worker = turn->job.workers.at(index);
    auto reply = std::make_unique<v1::JoinReply>();
    *reply->mutable_generation() = worker.generation;
    *reply->mutable_configuration() =
        turn->live->ForWorker(index, v1::ConfigurationVersion());
    reply->set_start_clock(worker.start_clock);
    turn->out->Reply(joining_.at(index).call, std::move(reply));
    const std::string generation = VersionName(worker.generation);
    turn->out->Note(
        absl::StrCat("worker-", index, " joined as generation ", generation),
        {{"worker", index}, {"generation", generation}});
    joining_.erase(index);
  }
}

// ---- who does not -----------------------------------------------------------

void Joins::RefuseLate(Turn* turn) {
  ForgetJoined(*turn);
  for (auto& [index, joining] : joining_) {
    if (joining.call == 0 || turn->now < joining.answer_until) continue;
    std::string whom;
    const auto worker = turn->job.workers.find(index);
    if (worker == turn->job.workers.end() ||
        worker->second.incarnation == joining.request.incarnation()) {
      whom = turn->job.waiting_for();
    } else {
      whom = absl::StrCat("the lease of the process ", worker->second.pid,
                          " on ", worker->second.host, " that was ",
                          turn->job.NameOfWorker(index), " before");
    }
    turn->out->Refuse(
        joining.call,
        RefuseForNow(v1::Refusal::NOT_READY, whom, absl::Milliseconds(50),
                     absl::StrCat("waiting for ", whom)));
    joining.call = 0;
  }
}

void Joins::ForgetJoined(const Turn& turn) {
  for (auto it = joining_.begin(); it != joining_.end();) {
    const JoiningRecord& joining = it->second;
    const bool is_gone = !turn.job.IsListed(it->first) && joining.call == 0 &&
                         turn.now - joining.answer_until > turn.job.lease();
    it = is_gone ? joining_.erase(it) : std::next(it);
  }
}

void Joins::TellEnd(Turn* turn) {
  for (auto& [index, joining] : joining_) {
    if (joining.call == 0) continue;
    turn->out->Refuse(joining.call, JobFinished("job"));
    joining.call = 0;
    turn->Raise(HeardOfEnd{index});
  }
}

void Joins::OnPause(absl::Duration pause) {
  for (auto& [index, joining] : joining_) joining.since = joining.since + pause;
}

void Joins::BeginAnew(Time now) {
  for (auto& [index, joining] : joining_) joining.since = now;
}

}  // namespace paramd
