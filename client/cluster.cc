#include "client/cluster.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "base/status_macros.h"
#include "client/live_weights.h"
#include "client/operator_calls.h"
#include "client/running_cluster.h"
#include "net/tls.h"

namespace paramd {
namespace {

using Code = Cluster::Code;
using Options = Cluster::Options;

// One that the header names.
Code CodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
      return static_cast<Code>(code);
    default:
      return Code::kUnknown;
  }
}

template <typename T>
Cluster::Result<T> ToResult(absl::StatusOr<T> from) {
  Cluster::Result<T> result;
  result.code = from.ok() ? Code::kOk : CodeOf(from.status().code());
  if (from.ok()) {
    result.value = *std::move(from);
  } else {
    result.message = std::string(from.status().message());
  }
  return result;
}

absl::Duration Timeout(const Options& options) {
  return absl::Seconds(options.timeout_seconds);
}

absl::StatusOr<ClusterAddress> Find(const Options& options) {
  ClusterAddress where;
  where.address = options.address;
  if (!options.tls_dir.empty()) {
    ASSIGN_OR_RETURN(where.tls, Tls::MakeOperator(options.tls_dir));
  }
  return where;
}

absl::StatusOr<LiveWeights> Live(const Options& options) {
  ASSIGN_OR_RETURN(ClusterAddress where, Find(options));
  return LiveWeights({.address = std::move(where.address),
                      .tls = std::move(where.tls),
                      .timeout = Timeout(options)});
}

// Where the chief takes an operator's calls.
absl::StatusOr<ChiefAddress> Chief(const Options& options) {
  if (!options.run_dir.empty()) {
    return ChiefAddress{.socket = ChiefSocket(options.run_dir)};
  }
  if (options.tls_dir.empty()) {
    return absl::FailedPreconditionError(
        "this is for an operator: give run_dir, on the chief's machine, or "
        "tls_dir");
  }
  ASSIGN_OR_RETURN(const ClusterAddress where, Find(options));
  bool answered = false;
  RunningProcess chief;
  RETURN_IF_ERROR(
      AskChief(where, absl::Now() + Timeout(options), &answered, &chief)
          .status());
  return ChiefAddress{.address = chief.address, .tls = where.tls};
}

Cluster::Variable ToVariable(const v1::Variable& from) {
  Cluster::Variable variable;
  variable.name = from.name();
  variable.shape.assign(from.shape().begin(), from.shape().end());
  variable.trainable = !from.untrained();
  return variable;
}

absl::StatusOr<std::vector<Cluster::Variable>> AskVariables(
    const Options& options) {
  ASSIGN_OR_RETURN(LiveWeights live, Live(options));
  ASSIGN_OR_RETURN(const std::vector<v1::Variable> all, live.Variables());
  std::vector<Cluster::Variable> variables;
  for (const v1::Variable& variable : all) {
    variables.push_back(ToVariable(variable));
  }
  return variables;
}

// It names those that there are, or the first ten.
absl::Status NoSuchVariable(const std::string& name,
                            const std::vector<v1::Variable>& all) {
  constexpr size_t kMost = 10;
  std::vector<std::string> has;
  for (size_t v = 0; v < std::min(all.size(), kMost); ++v) {
    has.push_back(all[v].name());
  }
  return absl::NotFoundError(absl::StrCat(
      "the running job has no variable '", name, "', but ",
      absl::StrJoin(has, ", "),
      all.size() > kMost ? absl::StrCat(" and ", all.size() - kMost, " more")
                         : ""));
}

// Those with these names, in their order; without names those whose rows are
// not by key.
absl::StatusOr<std::vector<v1::Variable>> Chosen(
    std::vector<v1::Variable> all, const std::vector<std::string>& names) {
  if (names.empty()) {
    const auto keyed = [](const v1::Variable& v) { return v.keyed(); };
    all.erase(std::remove_if(all.begin(), all.end(), keyed), all.end());
    return all;
  }
  absl::flat_hash_map<std::string, const v1::Variable*> known;
  for (const v1::Variable& variable : all) known[variable.name()] = &variable;
  std::vector<v1::Variable> chosen;
  for (const std::string& name : names) {
    const auto found = known.find(name);
    if (found == known.end()) {
      return NoSuchVariable(name, all);
    }
    chosen.push_back(*found->second);
  }
  return chosen;
}

absl::StatusOr<Cluster::Weights> PullChosen(
    const Options& options, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(LiveWeights live, Live(options));
  ASSIGN_OR_RETURN(std::vector<v1::Variable> all, live.Variables());
  ASSIGN_OR_RETURN(const std::vector<v1::Variable> chosen,
                   Chosen(std::move(all), names));
  ASSIGN_OR_RETURN(PulledWeights pulled, live.Pull(chosen));
  Cluster::Weights weights;
  weights.least_step = pulled.least_step;
  weights.most_step = pulled.most_step;
  for (size_t v = 0; v < chosen.size(); ++v) {
    weights.tensors.push_back(
        {ToVariable(chosen[v]), std::move(pulled.values[v])});
  }
  return weights;
}

Cluster::Status ToStatus(const v1::JobStats& job) {
  Cluster::Status status;
  status.job = job.name();
  status.state = v1::JobState_Name(job.state());
  status.global_step = job.global_step();
  status.epochs_done = job.epochs_done();
  status.epochs = job.epochs();
  status.staleness = job.staleness();
  status.waiting_for = job.waiting_for();
  status.checkpoint_path = job.checkpoint_path();
  status.checkpoint_step = job.checkpoint_step();
  for (const v1::Member& from : job.members()) {
    Cluster::Member& member = status.members.emplace_back();
    member.task = absl::StrCat(
        absl::AsciiStrToLower(v1::TaskType_Name(from.task().type())), "-",
        from.task().index());
    member.state = v1::Member::State_Name(from.state());
    member.address = from.address();
    member.pushes = from.pushes();
  }
  return status;
}

absl::StatusOr<Cluster::Status> AskStatus(const Options& options) {
  ASSIGN_OR_RETURN(const ClusterAddress where, Find(options));
  bool answered = false;
  RunningProcess chief;
  ASSIGN_OR_RETURN(
      const v1::StatusReply reply,
      AskChief(where, absl::Now() + Timeout(options), &answered, &chief));
  return ToStatus(reply.job());
}

absl::StatusOr<Cluster::Nothing> SetNow(const Options& options,
                                        const std::string& key,
                                        const std::string& value) {
  ASSIGN_OR_RETURN(const ChiefAddress chief, Chief(options));
  v1::SetRequest request;
  request.set_key(key);
  request.set_value(value);
  RETURN_IF_ERROR(CallSet(chief, request, Timeout(options)).status());
  return Cluster::Nothing();
}

absl::StatusOr<Cluster::Checkpointed> CheckpointNow(const Options& options) {
  ASSIGN_OR_RETURN(const ChiefAddress chief, Chief(options));
  ASSIGN_OR_RETURN(const v1::CheckpointReply reply,
                   CallCheckpoint(chief, Timeout(options)));
  return Cluster::Checkpointed{reply.path(), reply.step()};
}

}  // namespace

Cluster::Result<std::vector<Cluster::Variable>> Cluster::Variables() const {
  return ToResult(AskVariables(options_));
}

Cluster::Result<Cluster::Weights> Cluster::Pull(
    const std::vector<std::string>& names) const {
  return ToResult(PullChosen(options_, names));
}

Cluster::Result<Cluster::Status> Cluster::GetStatus() const {
  return ToResult(AskStatus(options_));
}

Cluster::Result<Cluster::Nothing> Cluster::Set(const std::string& key,
                                               const std::string& value) const {
  return ToResult(SetNow(options_, key, value));
}

Cluster::Result<Cluster::Checkpointed> Cluster::Checkpoint() const {
  return ToResult(CheckpointNow(options_));
}

std::future<Cluster::Result<std::vector<Cluster::Variable>>>
Cluster::VariablesAsync() const {
  return std::async(std::launch::async,
                    [self = *this] { return self.Variables(); });
}

std::future<Cluster::Result<Cluster::Weights>> Cluster::PullAsync(
    std::vector<std::string> names) const {
  return std::async(
      std::launch::async,
      [self = *this, names = std::move(names)] { return self.Pull(names); });
}

std::future<Cluster::Result<Cluster::Status>> Cluster::GetStatusAsync() const {
  return std::async(std::launch::async,
                    [self = *this] { return self.GetStatus(); });
}

std::future<Cluster::Result<Cluster::Nothing>> Cluster::SetAsync(
    std::string key, std::string value) const {
  return std::async(std::launch::async, [self = *this, key = std::move(key),
                                         value = std::move(value)] {
    return self.Set(key, value);
  });
}

std::future<Cluster::Result<Cluster::Checkpointed>> Cluster::CheckpointAsync()
    const {
  return std::async(std::launch::async,
                    [self = *this] { return self.Checkpoint(); });
}

int Cluster::LibraryVersion() { return PARAMD_CLIENT_VERSION; }

}  // namespace paramd
