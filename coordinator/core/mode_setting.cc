#include "coordinator/core/mode_setting.h"

#include <map>

#include "absl/strings/str_cat.h"

#include "config/consistency.h"
#include "config/strategy.h"
#include "coordinator/core/running_settings.h"
#include "proto/refusal.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

absl::Status Invalid(const v1::SetRequest& request,
                     absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, request.key(), sentence);
}

// What all servers prune at one instant; empty: nothing.
absl::string_view PrunedAsOne(const v1::JobConfig& job) {
  using Pruning = v1::OptimizerConfig::Pruning;
  for (const Pruning& entry : job.optimizer().pruning()) {
    if (entry.structure() == Pruning::CHANNELS) return "structure channels";
    if (entry.scope() == Pruning::GLOBAL) return "scope global";
  }
  return "";
}

}  // namespace

absl::StatusOr<v1::Consistency> ModeToSet(const v1::SetRequest& request,
                                          const v1::JobConfig& job) {
  if (request.key() != "staleness") {
    return Invalid(request, RunningSettings::CannotSentence(request.key()));
  }
  if (!UsesServers(job)) {
    return Invalid(
        request,
        absl::StrCat("staleness can't be changed with strategy \"",
                     StrategyName(job.strategy()),
                     "\", where each step is the sum of all gradients"));
  }
  auto mode = ParseStaleness(request.value());
  if (!mode.ok()) {
    return Invalid(request, absl::StrCat("staleness ", mode.status().message(),
                                         "; found \"", request.value(), "\""));
  }
  if (const absl::string_view pruned = PrunedAsOne(job);
      mode->mode() != v1::Consistency::SYNC && !pruned.empty()) {
    return Invalid(
        request,
        absl::StrCat("staleness stays sync with optimizer.pruning of ", pruned,
                     ", which is decided by the weights of one step"));
  }
  if (mode->mode() == v1::Consistency::SYNC && job.input().has_follow()) {
    return Invalid(request,
                   "staleness can't become sync with input.follow: the steps "
                   "of sync are planned over input that is all there");
  }
  // Pushes of sessions that end with the mode before can't be told from lost
  // ones where a server is taken over later.
  if (mode->mode() == v1::Consistency::SYNC && job.replication() > 1) {
    return Invalid(request,
                   "staleness can't become sync while the job runs with "
                   "replication 2; it may be sync from the start");
  }
  if (mode->mode() == v1::Consistency::SYNC) {
    mode->set_backup_workers(job.backup_workers());
  }
  return mode;
}

absl::Status CheckHoldable(const v1::Consistency& mode,
                           const v1::JobConfig& job, const v1::Layout& layout,
                           uint32_t workers) {
  if (mode.backup_workers() == 0) return absl::OkStatus();
  if (mode.backup_workers() >= workers) {
    return Refuse(v1::Refusal::INVALID, "backup_workers",
                  absl::StrCat("backup_workers is ", mode.backup_workers(),
                               " of ", workers,
                               " workers: at least one must be left to "
                               "contribute"));
  }
  std::map<uint32_t, uint64_t> bytes;  // Of one contribution, by server.
  for (const v1::Slice& slice : layout.slices()) {
    const auto shape = ToRowShape(layout.variables(slice.variable()).shape());
    if (!shape.ok()) return shape.status();
    bytes[slice.server()] += (slice.row_end() - slice.row_begin()) *
                             shape->row_elements * sizeof(float);
  }
  for (const auto& [server, shard] : bytes) {
    if (shard * workers <= job.sync_park_bytes()) continue;
    return Refuse(
        v1::Refusal::INVALID, "sync_park_bytes",
        absl::StrCat("a step of ", workers, " workers has ", shard * workers,
                     " bytes of gradients on ps-", server,
                     "; sync_park_bytes is ", job.sync_park_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace paramd
