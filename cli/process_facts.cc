#include "cli/process_facts.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "base/clock.h"
#include "config/environment.h"

namespace paramd {

ProcessFacts::ProcessFacts(const ClusterSpec& cluster, std::string build)
    : cluster_(cluster),
      build_(std::move(build)),
      host_(ReadHostName()),
      started_(MonotonicNow()) {}

void ProcessFacts::Fill(v1::StatusReply* status) const {
  status->set_build(build_);
  status->set_host(host_);
  status->set_pid(static_cast<uint32_t>(getpid()));
  status->set_uptime_ms(static_cast<uint64_t>(
      absl::ToInt64Milliseconds(MonotonicNow() - started_)));
  status->set_address(cluster_.self_address());
  status->set_chief_address(cluster_.chief_address());
  if (!status->has_job()) return;
  for (v1::Member& member : *status->mutable_job()->mutable_members()) {
    const std::vector<std::string>& addresses =
        member.task().type() == v1::PS ? cluster_.ps : cluster_.workers;
    if (member.task().index() < addresses.size()) {
      member.set_address(addresses[member.task().index()]);
    }
  }
}

}  // namespace paramd
