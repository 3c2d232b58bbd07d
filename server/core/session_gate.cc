#include "server/core/session_gate.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/configuration_changes.h"
#include "proto/job_end.h"
#include "proto/member_name.h"
#include "proto/refusal.h"

namespace paramd {
void SessionGate::Accept(const v1::Configuration& configuration) {
  configuration_ = configuration;
  generation_ = view_.FindSelf(configuration)->generation();
  sessions_.clear();
  for (const v1::WorkerMember& worker : configuration.workers()) {
    sessions_[worker.index()] = worker.generation();
  }
}

void SessionGate::FenceSessions(ShardContent* content) const {
  for (Slice* const slice : content->owned()) {
    for (const auto& [worker, generation] : sessions_) {
      slice->applied().Fence(worker, generation);
    }
  }
}

// ---- calls of coordinators --------------------------------------------------

// Before it is configured a process is nobody's yet.
absl::Status SessionGate::CheckProcess(const v1::Header& header) const {
  const uint64_t meant = header.server_incarnation();
  const uint64_t incarnation = view_.options.incarnation;
  if (meant == 0 || meant == incarnation || IsZero(configuration_.version())) {
    return absl::OkStatus();
  }
  return view_.NotReady(
      "coordinator",
      absl::StrCat("a call is for process ", absl::Hex(meant, absl::kZeroPad16),
                   "; this ", view_.Name(), " is process ",
                   absl::Hex(incarnation, absl::kZeroPad16)));
}

absl::Status SessionGate::CheckRun(const std::string& run_id,
                                   const std::string& job_digest) const {
  if (IsZero(configuration_.version())) return absl::OkStatus();
  if (run_id != configuration_.run_id()) {
    return Refuse(
        v1::Refusal::OTHER_JOB, run_id,
        absl::StrCat(view_.Name(), " belongs to run '", configuration_.run_id(),
                     "', not to '", run_id, "'"));
  }
  if (job_digest != configuration_.job_digest()) {
    return Refuse(
        v1::Refusal::OTHER_JOB, job_digest,
        absl::StrCat(view_.Name(), " has job settings of digest ",
                     configuration_.job_digest(), ", not ", job_digest));
  }
  return absl::OkStatus();
}

absl::Status SessionGate::CheckConfigurer(
    const v1::ConfigureRequest& request) const {
  const v1::Configuration& told = request.configuration();
  const v1::ConfigurationVersion& known = configuration_.version();
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckRun(told.run_id(), told.job_digest()));
  RETURN_IF_ERROR(
      CheckTerm(std::max(request.header().term(), told.version().term())));
  if (told.version() < known || IsZero(told.version())) {
    return Refuse(
        v1::Refusal::OLD_TERM, VersionName(told.version()),
        absl::StrCat("configuration ", VersionName(told.version()), " is old; ",
                     view_.Name(), " has ", VersionName(known)));
  }
  return absl::OkStatus();
}

absl::Status SessionGate::CheckRepeated(const v1::Configuration& told) const {
  const bool is_same =
      told.has_changes_since()
          ? AgreesWith(configuration_, told)
          : told.SerializeAsString() == configuration_.SerializeAsString();
  if (is_same) return absl::OkStatus();
  const std::string version = VersionName(configuration_.version());
  return Invalid(version, absl::StrCat("configuration ", version,
                                       " was told before with other content"));
}

absl::Status SessionGate::CheckLayout(const v1::Configuration& told) const {
  if (told.layout().SerializeAsString() ==
      configuration_.layout().SerializeAsString()) {
    return absl::OkStatus();
  }
  return Invalid("layout",
                 absl::StrCat("configuration ", VersionName(told.version()),
                              " changes the layout of ", view_.Name(),
                              " under its generation"));
}

absl::Status SessionGate::CheckMember(const v1::Configuration& told,
                                      ShardTurn* turn) const {
  const std::string name = view_.Name();
  const v1::ServerMember* const self = view_.FindSelf(told);
  if (self == nullptr) {
    return Invalid(name,
                   absl::StrCat("configuration ", VersionName(told.version()),
                                " does not name ", name));
  }
  const std::string generation = VersionName(self->generation());
  const uint64_t meant = view_.MeantIn(told);
  if (meant == 0) {
    return view_.NotReady(
        "coordinator",
        absl::StrCat("configuration ", VersionName(told.version()), " has ",
                     name, " elsewhere"));
  }
  if (meant == view_.options.incarnation) {
    if (!(self->generation() < generation_)) return absl::OkStatus();
    return Invalid(
        name, absl::StrCat(name, " is generation ", VersionName(generation_),
                           " already, not ", generation));
  }
  if (!(self->generation() > generation_) && !view_.IsBackupIn(told)) {
    return Invalid(
        name, absl::StrCat(name, " is generation ", VersionName(generation_),
                           "; generation ", generation,
                           " is given to another process"));
  }
  const std::string sentence = absl::StrCat(
      name, " generation ", VersionName(generation_),
      " has been replaced by another process, generation ", generation);
  turn->out->Exit(absl::AbortedError(sentence));
  return Refuse(v1::Refusal::FENCED, name, sentence);
}

bool SessionGate::IsOfAnEarlierProcess(const v1::Configuration& told) const {
  const v1::ServerMember* const self = view_.FindSelf(told);
  if (self == nullptr || view_.MeantIn(told) == view_.options.incarnation) {
    return false;
  }
  const v1::ConfigurationVersion& known = configuration_.version();
  return IsZero(known) || (told.version().term() > known.term() &&
                           !(self->generation() > generation_));
}

absl::Status SessionGate::CheckTerm(uint64_t term) const {
  if (term >= term_) return absl::OkStatus();
  return Refuse(v1::Refusal::OLD_TERM, absl::StrCat("term ", term),
                absl::StrCat("term ", term, " is over; ", view_.Name(),
                             " has heard of term ", term_));
}

// ---- any call ---------------------------------------------------------------

absl::Status SessionGate::CheckRunning() const {
  if (!view_.finished) return absl::OkStatus();
  return RefuseFinished(view_.Name(), view_.end);
}

absl::Status SessionGate::CheckKnown(const v1::Header& header) const {
  if (header.configuration() > configuration_.version()) {
    return view_.NotReady(
        "coordinator",
        absl::StrCat(view_.Name(), " has not heard of configuration ",
                     VersionName(header.configuration()), " yet"));
  }
  if (header.server_generation() > generation_) {
    return view_.NotReady(
        "coordinator",
        absl::StrCat(view_.Name(), " is generation ", VersionName(generation_),
                     "; generation ", VersionName(header.server_generation()),
                     " is meant"));
  }
  return absl::OkStatus();
}

absl::Status SessionGate::CheckFilled() const {
  const std::string name = view_.Name();
  switch (view_.fill_state) {
    case FillState::kNone:
      return view_.NotReady(
          name, absl::StrCat(name, " has not been given a configuration yet"));
    case FillState::kFilling:
      return view_.NotReady(name,
                            absl::StrCat(name, " is still filling its slices"));
    case FillState::kFailed:
      // The coordinator hears the failure itself and finds another checkpoint,
      // or ends the job.
      return view_.NotReady(name, view_.fill_failure.message());
    case FillState::kBackup:
      return view_.NotReady(
          name, absl::StrCat("this place of ", name, " is its backup"));
    case FillState::kFilled:
      break;
  }
  return view_.serving;
}

absl::Status SessionGate::CheckStaying() const {
  if (IsZero(view_.drained_by)) return absl::OkStatus();
  return view_.NotReady(view_.Name(),
                        absl::StrCat(view_.Name(),
                                     " was told to stop; its successor goes on "
                                     "from snapshot ",
                                     VersionName(view_.drained_by)));
}

absl::Status SessionGate::CheckSnapshot(
    const v1::SnapshotNumber& number) const {
  const v1::SnapshotNumber& heard = view_.data.content->fork().number();
  v1::SnapshotNumber newest = heard;
  const uint64_t term = configuration_.version().term();
  if (newest.term() < term) {
    newest.Clear();
    newest.set_term(term);
  }
  newest.set_counter(newest.counter() + kMostSnapshotsAhead);
  if (!(number > newest)) return absl::OkStatus();
  return view_.NotReady(
      "coordinator",
      absl::StrCat(view_.Name(), " has not heard of snapshot ",
                   VersionName(number), " yet; the newest it knows is ",
                   VersionName(heard)));
}

absl::Status SessionGate::CheckContributors() const {
  if (!view_.IsSync() || view_.data.step != nullptr) return absl::OkStatus();
  return view_.NotReady("coordinator", absl::StrCat(view_.Name(),
                                                    " knows no contributors "
                                                    "yet"));
}

// ---- calls of workers -------------------------------------------------------

absl::Status SessionGate::CheckSession(PeerId from,
                                       const v1::Header& header) const {
  if (from.kind == PeerId::Kind::kWorker && from.index != header.worker()) {
    return Refuse(v1::Refusal::NOT_ALLOWED, PeerName(from),
                  absl::StrCat(PeerName(from), " speaks in the name of worker-",
                               header.worker()));
  }
  const std::string name = WorkerName(header.worker(), header.generation());
  const auto session = sessions_.find(header.worker());
  if (session == sessions_.end() || header.generation() > session->second) {
    return view_.NotReady(
        name,
        absl::StrCat("configuration ", VersionName(configuration_.version()),
                     " does not name ", name));
  }
  if (header.generation() < session->second) {
    return Refuse(v1::Refusal::FENCED, name,
                  absl::StrCat(name, " has been followed by generation ",
                               VersionName(session->second)));
  }
  return absl::OkStatus();
}

absl::Status SessionGate::CheckPusher(PeerId from,
                                      const v1::Header& header) const {
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckSession(from, header));
  RETURN_IF_ERROR(CheckConfigured());
  RETURN_IF_ERROR(CheckTakenOver(header));
  RETURN_IF_ERROR(CheckKnown(header));
  RETURN_IF_ERROR(CheckMeant(header));
  RETURN_IF_ERROR(CheckFilled());
  return CheckStaying();
}

absl::Status SessionGate::CheckConfigured() const {
  if (configuration_.version().term() >= term_) return absl::OkStatus();
  return view_.NotReady("coordinator",
                        absl::StrCat("the coordinator of term ", term_,
                                     " takes over and has not configured ",
                                     view_.Name(), " yet"));
}

// A session that goes on under a new coordinator has told it first what it
// holds of the input: what it pushes before that might be handed out to
// somebody else.
absl::Status SessionGate::CheckTakenOver(const v1::Header& header) const {
  const uint64_t term = configuration_.version().term();
  if (header.generation().term() == term || header.term() == term) {
    return absl::OkStatus();
  }
  return view_.NotReady("coordinator",
                        absl::StrCat("the coordinator of term ", term,
                                     " has not heard yet what worker-",
                                     header.worker(), " holds of the input"));
}

// Its sender may have left that push behind since, and what it holds
// acknowledged now it says when it knows this life.
absl::Status SessionGate::CheckMeant(const v1::Header& header) const {
  const v1::ServerLife& meant = header.server_generation();
  if (IsZero(meant) || !(meant < generation_)) return absl::OkStatus();
  return view_.NotReady(
      "coordinator",
      absl::StrCat("a push is meant for generation ", VersionName(meant),
                   " of ", view_.Name(), ", which is generation ",
                   VersionName(generation_), " now"));
}

}  // namespace paramd
