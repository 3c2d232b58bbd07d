#include "process/observe/process_facts.h"

#include <unistd.h>

#include <ctime>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "config/environment.h"

namespace paramd {
namespace {

// Of a job that is in this process alone: the chief.
v1::Task TaskOf(const ClusterSpec& cluster) {
  v1::Task task;
  const int worker = cluster.standalone ? 0 : cluster.worker_index();
  if (cluster.is_ps()) {
    task.set_type(v1::PS);
    task.set_index(cluster.self.index);
  } else if (cluster.is_stage()) {
    task.set_type(v1::STAGE);
    task.set_index(cluster.self.index);
  } else if (worker >= 0) {
    task.set_type(v1::WORKER);
    task.set_index(worker);
  } else {
    task.set_type(v1::EVALUATOR);
    task.set_index(cluster.self.index);
  }
  return task;
}

std::string AddressIn(const std::vector<std::string>& addresses,
                      uint32_t task) {
  return task < addresses.size() ? addresses[task] : "";
}

// Of all threads.
uint64_t ProcessorMs() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<uint64_t>(
      absl::ToInt64Milliseconds(absl::DurationFromTimespec(used)));
}

}  // namespace

ProcessFacts::ProcessFacts(const ClusterSpec& cluster, uint32_t shards,
                           uint32_t places, std::string build)
    : cluster_(cluster),
      shards_(shards),
      places_(places),
      build_(std::move(build)),
      host_(ReadHostName()),
      started_(MonotonicNow()) {}

void ProcessFacts::Fill(v1::StatusReply* status) const {
  *status->mutable_task() = TaskOf(cluster_);
  status->set_build(build_);
  status->set_host(host_);
  status->set_pid(static_cast<uint32_t>(getpid()));
  status->set_uptime_ms(static_cast<uint64_t>(
      absl::ToInt64Milliseconds(MonotonicNow() - started_)));
  status->set_processor_ms(ProcessorMs());
  status->set_address(cluster_.self_address());
  status->set_chief_address(cluster_.chief_address());
  if (!status->has_job()) return;
  for (v1::Member& member : *status->mutable_job()->mutable_members()) {
    if (!member.joined()) member.set_address(AddressOf(member));
    if (member.has_backup_peer()) {
      member.set_backup_address(AddressOfPlace(member.backup_peer()));
    }
  }
}

std::string ProcessFacts::AddressOf(const v1::Member& member) const {
  const uint32_t index = member.task().index();
  if (member.task().type() != v1::PS) return AddressIn(cluster_.workers, index);
  return member.has_peer() ? AddressOfPlace(member.peer())
                           : AddressIn(cluster_.ps, index / shards_);
}

std::string ProcessFacts::AddressOfPlace(uint32_t peer) const {
  return AddressIn(cluster_.ps, peer / places_);
}

void FillEnd(const v1::Finished& end, v1::StatusReply* last) {
  if (!end.stopped() || !last->has_job()) return;
  v1::JobStats* const job = last->mutable_job();
  job->set_state(v1::FINISHED);
  job->set_stopping(end.reason());
  job->clear_waiting_for();
}

}  // namespace paramd
