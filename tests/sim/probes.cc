#include "tests/sim/probes.h"

#include "absl/strings/str_cat.h"

namespace paramd {

const std::vector<std::string>& Probes::Required() {
  static const auto* const required = new std::vector<std::string>{
      "a block is forked at the seal",
      "a block is forked by a stamp",
      "a checkpoint can't be read now",
      "a checkpoint has a base",
      "a coordinator goes on from a checkpoint",
      "a damaged checkpoint is passed over",
      "a file goes through the chief",
      "a slice goes through the chief",
      "a fork is given up",
      "a push before the cut is applied to both copies",
      "a push is given up",
      "a push is answered with the weights behind it",
      "a loss is reported",
      "a loss is reported of a session that pushed no more",
      "a server comes back after draining",
      "a server comes back without its shard",
      "a server finds a file damaged",
      "a server leaves when its snapshot is committed",
      "a server restores from a file with a base",
      "a snapshot is given up",
      "a spoiled chunk is refused",
      "a stamp of an ended snapshot is ignored",
      "a worker is fenced because its process ended",
      "a worker is fenced or leaves",
      "a worker joins again in the same process",
      "a worker leaves in good order",
      "servers are taken over",
      "a server refuses ConfigureRequest as NOT_READY",
      "a server refuses ConfigureRequest as OLD_TERM",
      "a server refuses PullRequest as NOT_READY",
      "a server refuses PushRequest as FENCED",
      "a server refuses PushRequest as NOT_READY",
      "a server refuses PushRequest as OVER_LIMIT",
      "the coordinator refuses HeartbeatRequest as NOT_READY",
      "the coordinator refuses HeartbeatRequest as SUPERSEDED",
      "the coordinator refuses JoinRequest as NOT_READY",
      "the coordinator refuses PortionRequest as SUPERSEDED",
  };
  return *required;
}

void Probes::Add(const Probes& other) {
  for (const auto& [name, times] : other.hits_) hits_[name] += times;
}

uint64_t Probes::Of(absl::string_view name) const {
  const auto found = hits_.find(std::string(name));
  return found == hits_.end() ? 0 : found->second;
}

std::vector<std::string> Probes::Missing() const {
  std::vector<std::string> missing;
  for (const std::string& name : Required()) {
    if (Of(name) == 0) missing.push_back(name);
  }
  return missing;
}

std::string Probes::ToString() const {
  std::string text;
  for (const std::string& name : Missing()) {
    absl::StrAppend(&text, "never reached: ", name, "\n");
  }
  for (const auto& [name, times] : hits_) {
    absl::StrAppend(&text, name, ": ", times, "\n");
  }
  return text;
}

}  // namespace paramd
