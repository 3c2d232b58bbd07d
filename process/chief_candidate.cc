#include "process/chief_candidate.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "config/election_place.h"
#include "config/job_config.h"
#include "coordinator/election/chief_record.h"
#include "coordinator/failure_note.h"
#include "process/run_directory.h"

namespace paramd {
namespace {

// How often an API server is asked who is the chief. There may be a thousand of
// the others.
constexpr absl::Duration kCandidateLooks = absl::Seconds(1);
constexpr absl::Duration kOthersLook = absl::Seconds(3);

absl::Status Stand(std::unique_ptr<ChiefRecord> record,
                   PreparedProcess* prepared) {
  const v1::JobConfig& job = prepared->job.config;
  ChiefElection::Options options;
  options.address = prepared->cluster.self_address();
  options.incarnation = prepared->role.incarnation;
  options.replaces = prepared->role.replaces;
  options.state_directory = StateDirectory(job);
  options.ttl = absl::Milliseconds(job.lease_ms());
  options.patience = absl::Milliseconds(job.start_timeout_ms());
  RETURN_IF_ERROR(UseRunDirectory(job.run_dir(), /*may_hold_a_run=*/true));
  RETURN_IF_ERROR(UseRunDirectory(options.state_directory, true));
  FailureNote note(job.run_dir());
  ASSIGN_OR_RETURN(prepared->election,
                   ChiefElection::Stand(options, std::move(record)));
  // Under whom it stood by: that end is the job's.
  if (prepared->election->stood_by()) RETURN_IF_ERROR(note.Read());
  return prepared->process->LeadBy(prepared->election.get());
}

}  // namespace

absl::Status TakePartInElection(PreparedProcess* prepared) {
  const v1::JobConfig& job = prepared->job.config;
  // Those two call nobody.
  if (job.chief_election().empty() || prepared->role.evaluator.has_value() ||
      prepared->role.stage.has_value()) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ElectionPlace place,
                   ParseElectionPlace(job.chief_election()));
  const bool is_candidate = prepared->role.is_chief();
  ASSIGN_OR_RETURN(
      auto record,
      OpenChiefRecord(place, job.chief_election_tls_dir(),
                      is_candidate ? kCandidateLooks : kOthersLook));
  if (is_candidate) return Stand(std::move(record), prepared);
  prepared->chief_watch = std::make_unique<ChiefWatch>(
      std::move(record), prepared->cluster.chief_address());
  return absl::OkStatus();
}

void FillElection(const PreparedProcess& prepared, v1::StatusReply* status) {
  if (prepared.chief_watch != nullptr) {
    status->set_chief_address(prepared.chief_watch->address());
  }
  if (prepared.election == nullptr) return;
  const auto away = prepared.election->away();
  if (!away.has_value()) return;
  v1::Wait* const wait = status->add_waits();
  wait->set_who("coordinator");
  wait->set_whom(absl::StrCat(away->why, "; training goes on with this chief"));
  wait->set_since_ms(static_cast<uint64_t>(
      absl::ToInt64Milliseconds(MonotonicNow() - away->since)));
}

}  // namespace paramd
