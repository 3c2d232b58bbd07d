// What the coordinator knows of the members of the job, for people.
#include "coordinator/core/dispatcher.h"

namespace paramd {
namespace {

v1::Member* AddMember(v1::TaskType type, uint32_t index, v1::JobStats* job) {
  v1::Member* member = job->add_members();
  member->mutable_task()->set_type(type);
  member->mutable_task()->set_index(index);
  member->set_state(v1::Member::AWAITED);
  return member;
}

uint64_t Milliseconds(absl::Duration duration) {
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

void Dispatcher::FillServers(v1::JobStats* job) const {
  for (uint32_t s = 0; s < servers_.size(); ++s) {
    const Server& server = servers_[s];
    v1::Member* member = AddMember(v1::PS, s, job);
    if (server.incarnation == 0) continue;
    member->set_state(server.suspected  ? v1::Member::LOST
                      : server.restored ? v1::Member::ALIVE
                                        : v1::Member::STARTING);
    *member->mutable_generation() = server.generation;
    member->set_incarnation(server.incarnation);
    member->set_silent_ms(Milliseconds(last_event_ - server.heard));
  }
}

void Dispatcher::FillWorker(const Worker& worker, v1::Member* member) const {
  // Its first heartbeat says that it was told its generation.
  member->set_state(!job_.IsLive(worker, last_event_) ? v1::Member::LOST
                    : worker.last.number() > 0        ? v1::Member::ALIVE
                                                      : v1::Member::STARTING);
  *member->mutable_generation() = worker.generation;
  member->set_incarnation(worker.incarnation);
  member->set_host(worker.host);
  member->set_pid(worker.pid);
  member->set_silent_ms(Milliseconds(last_event_ - worker.heard));
  member->set_pushes(worker.acknowledged);
  member->set_clock(worker.last.clock());
}

void Dispatcher::FillWorkers(v1::JobStats* job) const {
  for (uint32_t w = 0; w < options_.workers; ++w) {
    v1::Member* member = AddMember(v1::WORKER, w, job);
    const auto known = workers_.find(w);
    const auto lost = lost_workers_.find(w);
    if (known != workers_.end()) {
      FillWorker(known->second, member);
    } else if (joins_.IsJoining(w)) {
      member->set_state(v1::Member::STARTING);
    } else if (lost != lost_workers_.end()) {
      FillWorker(lost->second, member);
    }
  }
}

v1::JobState Dispatcher::StateForPeople() const {
  if (configuration().state() != v1::JOB_STATE_UNSPECIFIED) {
    return configuration().state();
  }
  // Of a run that had ended before this process began, or that is yet to be
  // found.
  return phase_ >= JobPhase::kTellingEnd ? v1::FINISHED : v1::STARTING;
}

}  // namespace paramd
