#include "coordinator/core/snapshot_round.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/optimizer_slots.h"
#include "coordinator/core/portions.h"
#include "coordinator/core/rate_scale.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

bool AllOf(const std::vector<bool>& flags) {
  return std::all_of(flags.begin(), flags.end(), [](bool b) { return b; });
}

// The newest push of each worker.
class NewestPushes {
 public:
  // Of a record in a slice, or of a session.
  template <typename Push>
  void Add(const Push& push) {
    if (IsZero(push.generation())) return;  // Of another run.
    v1::SavedSession& session = sessions_[push.worker()];
    const bool newer = push.generation() > session.generation() ||
                       (push.generation() == session.generation() &&
                        push.sequence() > session.sequence());
    if (!newer) return;
    session.set_worker(push.worker());
    *session.mutable_generation() = push.generation();
    session.set_sequence(push.sequence());
  }
  void Add(const v1::ShardFile& file) {
    for (const v1::SavedSlice& slice : file.slices()) {
      for (const v1::PushRecord& record : slice.records()) Add(record);
    }
  }
  const std::map<uint32_t, v1::SavedSession>& sessions() const {
    return sessions_;
  }

 private:
  std::map<uint32_t, v1::SavedSession> sessions_;
};

}  // namespace

void SnapshotRound::Pause(absl::Duration pause) {
  opened_ = opened_ + pause;
  sealed_at_ = sealed_at_ + pause;
}

void SnapshotRound::Prepared(const v1::PrepareCheckpointResult& prepared,
                             std::vector<v1::ServerLife> server_generations) {
  prepared_ = prepared;
  server_generations_ = std::move(server_generations);
  phase_ = Phase::kCutting;
}

void SnapshotRound::Cut(uint32_t worker, const v1::WorkerCut& cut) {
  if (phase_ == Phase::kCutting && cut.snapshot() == number_) {
    cuts_[worker] = cut;
  }
}

bool SnapshotRound::HasAcknowledged(uint32_t worker) const {
  const auto cut = cuts_.find(worker);
  return cut != cuts_.end() && cut->second.acknowledged();
}

void SnapshotRound::Used(uint32_t worker,
                         const std::vector<v1::Portion>& portions) {
  const auto cut = cuts_.find(worker);
  if (phase_ != Phase::kCutting || cut == cuts_.end()) return;
  for (const v1::Portion& portion : portions) {
    used_behind_.push_back(Portions::Left(portion, &cut->second));
  }
}

void SnapshotRound::Gone(const v1::SavedSession& session) {
  const auto cut = cuts_.find(session.worker());
  if (phase_ != Phase::kCutting || cut == cuts_.end()) return;
  v1::SavedSession& counted = counted_.emplace_back(session);
  counted.set_sequence(std::min(session.sequence(), cut->second.sequence()));
  pushes_behind_ += session.sequence() - counted.sequence();
  cuts_.erase(cut);
}

void SnapshotRound::BeginSeal(uint64_t step, v1::SavedInput input,
                              const std::vector<v1::SavedSession>& present,
                              Time now) {
  step_ = step - std::min(step, pushes_behind_);
  counted_.insert(counted_.end(), present.begin(), present.end());
  input_ = std::move(input);
  for (const v1::Portion& portion : used_behind_) {
    Portions::AddLeft(portion, &input_);
  }
  sealed_at_ = now;
  phase_ = Phase::kSealing;
}

v1::SealRequest SnapshotRound::SealFor(uint32_t server) const {
  v1::SealRequest request;
  *request.mutable_header()->mutable_snapshot() = number_;
  request.mutable_header()->set_term(number_.term());
  request.set_directory(prepared_.directory());
  request.set_nonce(prepared_.nonce());
  *request.mutable_base() = options_.base;
  request.set_stopped(options_.stopped);
  request.set_file_name(
      ServerFileName(server, static_cast<uint32_t>(files_.size())));
  for (const v1::ServerLife& generation : server_generations_) {
    *request.add_server_generations() = generation;
  }
  return request;
}

void SnapshotRound::Sealed(uint32_t server) {
  sealed_[server] = true;
  if (phase_ == Phase::kSealing && AllOf(sealed_)) phase_ = Phase::kWriting;
}

void SnapshotRound::Written(uint32_t server, const v1::ShardFile& file) {
  files_[server] = file;
  written_[server] = true;
  if (phase_ == Phase::kWriting && AllOf(written_)) {
    phase_ = Phase::kCommitting;
  }
}

v1::Manifest SnapshotRound::MakeManifest(
    const v1::JobConfig& job, const v1::Configuration& configuration) const {
  v1::Manifest manifest;
  manifest.set_format(1);
  manifest.set_min_reader(1);
  manifest.set_job_name(job.name());
  manifest.set_job_digest(configuration.job_digest());
  manifest.set_run_id(configuration.run_id());
  *manifest.mutable_snapshot() = number_;
  manifest.set_global_step(step_);
  *manifest.mutable_variables() = configuration.layout().variables();
  NewestPushes newest;
  for (const v1::ShardFile& file : files_) {
    *manifest.add_files() = file;
    newest.Add(file);
  }
  for (const v1::SavedSession& session : counted_) newest.Add(session);
  for (const auto& [worker, session] : newest.sessions()) {
    *manifest.add_sessions() = session;
  }
  *manifest.mutable_input() = input_;
  if (RateScaleOf(configuration) != 1) {
    manifest.set_learning_rate_scale(RateScaleOf(configuration));
  }
  for (const Slot& slot :
       SlotsOf(configuration.optimizer(), manifest.variables())) {
    manifest.add_slots(std::string(slot.name));
  }
  for (const v1::Variable& variable : manifest.variables()) {
    const auto slots = SlotsOf(configuration.optimizer(), variable);
    if (FollowFrom(manifest.slots(), SlotOwnerOf(variable), slots)) continue;
    v1::SlotNames& own = (*manifest.mutable_variable_slots())[variable.name()];
    for (const Slot& slot : slots) own.add_names(std::string(slot.name));
  }
  return manifest;
}

std::string SnapshotRound::waiting_for(
    const std::map<uint32_t, v1::SessionId>& sessions) const {
  const std::string name =
      absl::StrCat(" for checkpoint ", VersionName(number_));
  if (phase_ == Phase::kCutting) {
    for (const auto& [worker, generation] : sessions) {
      const std::string session = WorkerName(worker, generation);
      if (!HasCut(worker)) {
        return absl::StrCat(session, " to say its last push", name);
      }
      if (!HasAcknowledged(worker)) {
        return absl::StrCat("push ", cuts_.at(worker).sequence(), " of ",
                            session, " to be acknowledged", name);
      }
    }
    return absl::StrCat("the servers to know all workers", name);
  }
  for (uint32_t s = 0; s < sealed_.size(); ++s) {
    if (!NeedsSeal(s) && !NeedsWritten(s)) continue;
    return absl::StrCat(ServerName(s, server_generations_[s]),
                        NeedsSeal(s) ? " to freeze" : " to write", name);
  }
  return phase_ == Phase::kWriting || phase_ == Phase::kSealing
             ? ""
             : absl::StrCat("storage", name);
}

}  // namespace paramd
