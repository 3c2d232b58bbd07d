#include "process/multi_worker.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "config/job_config.h"
#include "coordinator/configuration_log.h"
#include "coordinator/coordinator_process.h"
#include "coordinator/core/run_record.h"
#include "process/run_directory.h"
#include "process/run_result.h"
#include "worker/collective/gloo_collective.h"
#include "worker/rendezvous/round_member.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

// What nobody reads is not written.
constexpr uint64_t kNoSummaries = 1000000000000;
constexpr uint32_t kLongestTimeout = 4000000000;  // Milliseconds: weeks.
// Between beats while somebody waits.
constexpr absl::Duration kUrgent = absl::Milliseconds(10);
constexpr absl::Duration kBeatDeadline = absl::Seconds(2);
constexpr absl::Duration kContentDeadline = absl::Seconds(10);
// A worker is lost that was silent for so many heartbeats.
constexpr int kLostAfter = 5;
// A worker that is missing for less is not worth a line.
constexpr absl::Duration kSayBehind = absl::Milliseconds(100);
// Between looks at the run of a chief that is not heard.
constexpr absl::Duration kLookEvery = absl::Seconds(1);
// How long the chief waits at its end for those that do not ask.
constexpr absl::Duration kFarewell = absl::Seconds(10);

absl::Duration HeartbeatOf(const v1::JobConfig& job) {
  return absl::Milliseconds(job.heartbeat_ms());
}

absl::Duration PatienceOf(const v1::JobConfig& job) {
  return absl::Milliseconds(job.all_reduce().rejoin_timeout_ms());
}

// How the others reach this process is where it listens.
MakeLinked LinksOf(const ClusterSpec& cluster) {
  const std::string address = cluster.self_address();
  std::string host = address.substr(0, address.rfind(':'));
  if (!host.empty() && host.front() == '[') {
    host = host.substr(1, host.size() - 2);
  }
  return [host](size_t rank, size_t size) {
    return MakeGlooCollective(host, rank, size);
  };
}

RoundExchange::Options ExchangeOptions(const ClusterSpec& cluster,
                                       const v1::JobConfig& job,
                                       std::function<uint32_t()> checksum) {
  RoundExchange::Options options;
  options.shares = static_cast<uint32_t>(cluster.workers.size());
  options.bucket_bytes = job.all_reduce().bucket_bytes();
  options.check_every_steps = job.all_reduce().check_every_steps();
  options.checksum = std::move(checksum);
  return options;
}

Rendezvous::Options RendezvousOptions(const ClusterSpec& cluster,
                                      const v1::JobConfig& job) {
  Rendezvous::Options options;
  options.workers = static_cast<uint32_t>(cluster.workers.size());
  options.lost_after = kLostAfter * HeartbeatOf(job);
  options.patience = PatienceOf(job);
  options.fewest = job.all_reduce().fewest_workers();
  return options;
}

// Of a worker that is not the chief: nobody reads what it writes. The directory
// is the process's alone.
absl::Status UseOwnDirectory(uint32_t worker, uint64_t incarnation,
                             v1::JobConfig* job) {
  std::error_code error;
  std::string directory;
  if (job->run_dir().empty()) {
    // A name that nobody can have made before.
    directory =
        absl::StrCat(fs::temp_directory_path(error).string(), "/paramd-",
                     job->name(), "-worker-", worker, "-XXXXXX");
    if (mkdtemp(directory.data()) == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot make a directory '", directory,
                       "': ", strerror(errno), "; set run_dir, or TMPDIR"));
    }
  } else {
    directory = absl::StrCat(job->run_dir(), "/workers/", worker, "-",
                             absl::Hex(incarnation));
  }
  RETURN_IF_ERROR(UseRunDirectory(directory, /*may_hold_a_run=*/true));
  job->set_run_dir(directory);
  job->mutable_checkpoint()->set_directory(directory + "/checkpoints");
  job->mutable_checkpoint()->set_every_steps(0);
  job->mutable_checkpoint()->set_every_seconds(0);
  job->mutable_backup_and_restore()->clear_directory();
  job->mutable_summary()->set_directory(directory + "/summaries");
  job->mutable_summary()->set_every_steps(kNoSummaries);
  return absl::OkStatus();
}

// What processes that were this worker before, and were killed, have left.
void DeleteOthers(const fs::path& own) {
  const std::string name = own.filename();
  const std::string worker = name.substr(0, name.find('-') + 1);
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(own.parent_path(), error)) {
    const std::string other = entry.path().filename();
    if (other == name || !absl::StartsWith(other, worker)) continue;
    fs::remove_all(entry.path(), error);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MultiWorker>> MultiWorker::Create(
    const ClusterSpec& cluster, Identity self, LoadedJob* job) {
  // Each share is one replica's, wherever it is computed.
  job->config.set_replicas(static_cast<uint32_t>(cluster.workers.size()));
  // Without a backup, or when that was taken out of it; in the backup.
  std::set<std::string> runs = {job->config.run_dir(),
                                StateDirectory(job->config)};
  runs.erase("");
  // How long the others are waited for is the rendezvous's to say.
  job->config.set_start_timeout_ms(kLongestTimeout);
  if (cluster.worker_index() > 0) {
    RETURN_IF_ERROR(
        UseOwnDirectory(static_cast<uint32_t>(cluster.worker_index()),
                        self.incarnation, &job->config));
  }
  return std::unique_ptr<MultiWorker>(
      new MultiWorker(cluster, std::move(self), *job, std::move(runs)));
}

MultiWorker::MultiWorker(const ClusterSpec& cluster, Identity self,
                         const LoadedJob& job, std::set<std::string> runs)
    : job_(job),
      runs_(std::move(runs)),
      workers_(cluster.workers),
      index_(static_cast<uint32_t>(cluster.worker_index())),
      self_(std::move(self)),
      collectives_({.name = absl::StrCat("worker-", index_)}, LinksOf(cluster),
                   [this] { return process_->OpenRing(); }),
      link_(index_, self_.incarnation,
            [this](size_t rank, size_t size) {
              return collectives_.Make(rank, size);
            }),
      exchange_(
          ExchangeOptions(cluster, job.config,
                          [this] { return process_->Checksum(runtime_); }),
          &link_),
      source_(job.config),
      rendezvous_(RendezvousOptions(cluster, job.config)) {
  if (!is_chief()) {
    chief_ =
        std::make_unique<BlockingCaller>(PeerId::Worker(index_), workers_[0]);
  }
}

MultiWorker::~MultiWorker() {
  if (is_chief()) return;
  std::error_code error;
  const fs::path directory(std::string(job_.config.run_dir()));
  fs::remove_all(directory, error);
  // Of the last one.
  if (directory.parent_path().filename() == "workers") {
    fs::remove(directory.parent_path(), error);
  }
}

Membership MultiWorker::membership() {
  Membership membership;
  membership.exchange = &exchange_;
  membership.replicas = 1;
  membership.evaluates = is_chief();
  membership.before_start = [this] { return BringContent(); };
  if (is_chief()) {
    membership.has_result = [this] { TellTheEnd(/*everybody=*/false); };
  } else {
    membership.await_end = [this] { return link_.AwaitEnd(); };
  }
  return membership;
}

void MultiWorker::SetParts(Process* process, Runtime* runtime) {
  process_ = process;
  runtime_ = runtime;
  const fs::path own(std::string(job_.config.run_dir()));
  if (!is_chief() && own.parent_path().filename() == "workers") {
    DeleteOthers(own);
  }
  source_.SetRuntime(runtime);
  link_.SetModel(process->ModelChecksum());
  runtime->OnStatus([this](v1::StatusReply* status) { FillStatus(status); });
}

absl::Status MultiWorker::Run() {
  beating_ = std::thread([this] { KeepBeating(); });
  absl::Status status = process_->Run(runtime_);
  stopping_ = true;
  link_.Fail(absl::CancelledError("it ends"));
  beating_.join();
  return status;
}

std::string MultiWorker::NameOf(uint32_t worker) const {
  return absl::StrCat("worker-", worker, " at ", workers_[worker]);
}

// ---- what others call -------------------------------------------------------

absl::StatusOr<ProcessAnswer> MultiWorker::Answer(
    const google::protobuf::Message& request) {
  ProcessAnswer answer;
  if (request.GetDescriptor() == v1::ReadStateRequest::descriptor()) {
    return source_.Read(static_cast<const v1::ReadStateRequest&>(request),
                        link_.standing_in());
  }
  if (request.GetDescriptor() == v1::BeatRequest::descriptor() && is_chief()) {
    ASSIGN_OR_RETURN(v1::BeatReply reply,
                     TakeBeat(static_cast<const v1::BeatRequest&>(request)));
    answer.head = std::make_unique<v1::BeatReply>(std::move(reply));
    return answer;
  }
  return absl::UnimplementedError(
      absl::StrCat("beats are for worker-0; this is ", NameOf(index_)));
}

absl::StatusOr<ProcessAnswer> MultiWorker::AnswerFinished(
    const google::protobuf::Message& request) {
  if (request.GetDescriptor() != v1::BeatRequest::descriptor()) {
    return absl::UnimplementedError("the job is finished");
  }
  auto reply = std::make_unique<v1::BeatReply>();
  reply->set_finished(true);
  ProcessAnswer answer;
  answer.head = std::move(reply);
  return answer;
}

absl::StatusOr<v1::BeatReply> MultiWorker::TakeBeat(
    const v1::BeatRequest& beat) {
  const MutexLock lock(&mutex_);
  if (beat.worker() != index_ && known_.count(beat.incarnation()) == 0) {
    if (!beat.has_hello()) {
      v1::BeatReply reply;
      reply.set_introduce(true);
      return reply;
    }
    RETURN_IF_ERROR(CheckSame(beat));
    known_.insert(beat.incarnation());
  }
  return rendezvous_.Beat(beat, MonotonicNow());
}

absl::Status MultiWorker::CheckSame(const v1::BeatRequest& beat) const {
  const v1::HelloRequest& hello = beat.hello();
  const std::string own = process_->ModelsDevice();
  if (!beat.device().empty() && beat.device() != own) {
    return absl::InvalidArgumentError(absl::StrCat(
        "worker-", hello.task().index(), " computes on ", beat.device(),
        ", the chief on ", own,
        ": weights stay the same, whichever worker is lost, "
        "only where all replicas have equal devices; give all workers the "
        "same, or choose strategy \"parameter_server\""));
  }
  const absl::Status same = CheckHello(self_, hello);
  if (!same.ok()) return absl::InvalidArgumentError(same.message());
  if (hello.build() == self_.build) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "worker-", hello.task().index(), " is paramd ", hello.build(),
      ", the chief ", self_.build,
      ": copies stay the same only where all "
      "workers are of one build; start all with the same, or choose strategy "
      "\"parameter_server\""));
}

// ---- the beginning and the end ----------------------------------------------

absl::Status MultiWorker::BringContent() {
  while (true) {
    if (is_chief() && IsFinished()) {
      TellTheEnd(/*everybody=*/true);  // They may have just begun.
      return absl::OkStatus();         // The coordinator finds that too.
    }
    if (is_chief() && HasResult()) {
      const MutexLock lock(&mutex_);
      rendezvous_.Finish();
      return absl::OkStatus();  // What is left to do needs nobody else.
    }
    const auto content = link_.AwaitContent();
    if (!content.ok() && link_.finished()) {
      Log(LogLevel::kInfo, "the chief has finished the job already");
      runtime_->Stop(absl::OkStatus());
    }
    RETURN_IF_ERROR(content.status());
    if (content->is_own) return absl::OkStatus();
    BlockingCaller source(PeerId::Worker(index_), workers_[content->source]);
    const AskSource ask = [&source](const v1::ReadStateRequest& request) {
      return source.Call(request, kContentDeadline);
    };
    const std::function<bool()> goes_on = [&] {
      return link_.IsIn(content->round);
    };
    const absl::Status taken = TakeContent(job_.config, self_.incarnation,
                                           content->round, ask, goes_on);
    if (taken.ok() || goes_on()) return taken;
    Log(LogLevel::kInfo, "starts again to take over what another worker has",
        {{"why", taken.message()}});
  }
}

bool MultiWorker::IsFinished() const {
  for (const std::string& run : runs_) {
    const auto entries =
        DirectoryLog(CoordinatorProcess::LogDirectory(run)).ReadAll();
    if (!entries.ok()) continue;
    RunRecord record(job_.config, job_.digest, process_->TrainingData());
    for (const v1::LogEntry& entry : *entries) record.Read(entry);
    if (record.finished() && record.Begin("").ok()) return true;
  }
  return false;
}

// Its newest checkpoint has all steps: the others may have ended.
bool MultiWorker::HasResult() const {
  const auto result = ReadRunResult(job_.config.run_dir());
  return result.ok() && !result->checkpoint_path().empty() &&
         result->epochs() >= job_.config.epochs();
}

void MultiWorker::TellTheEnd(bool everybody) {
  const Time until = MonotonicNow() + kFarewell;
  while (!stopping_ && MonotonicNow() < until) {
    {
      const MutexLock lock(&mutex_);
      rendezvous_.Finish();
      if (everybody ? rendezvous_.EverybodyKnowsTheEnd()
                    : rendezvous_.AllKnowTheEnd(MonotonicNow())) {
        return;
      }
    }
    absl::SleepFor(kUrgent);
  }
}

// ---- beats ------------------------------------------------------------------

void MultiWorker::KeepBeating() {
  bool introduce = false;
  while (!stopping_) {
    const auto reply = Beat(introduce);
    if (reply.ok()) {
      unanswered_since_ = Time::Never();
      introduce = reply->introduce();
      if (introduce) continue;
      Hear(*reply);
    } else if (absl::IsInvalidArgument(reply.status()) ||
               absl::IsAlreadyExists(reply.status())) {
      link_.Fail(reply.status());
      runtime_->Stop(reply.status());
      return;
    } else {
      Unanswered(reply.status());
    }
    LogMissing();
    link_.AwaitNews(link_.urgent() ? kUrgent : HeartbeatOf(job_.config));
    if (!reply.ok()) absl::SleepFor(kUrgent);
  }
}

// Where the chief waits no longer, what has been trained is kept, as where it
// is told to leave.
void MultiWorker::Hear(const v1::BeatReply& reply) {
  if (!is_chief() || reply.gave_up().empty() || !link_.stands_before_a_step()) {
    return link_.Hear(reply);
  }
  runtime_->Drain(absl::DeadlineExceededError(reply.gave_up()),
                  absl::Milliseconds(job_.config.drain_timeout_ms()));
}

absl::StatusOr<v1::BeatReply> MultiWorker::Beat(bool introduce) {
  v1::BeatRequest beat = link_.Say();
  if (is_chief()) return TakeBeat(beat);
  if (introduce) {
    *beat.mutable_hello() = MakeHello(self_);
    beat.set_device(process_->ModelsDevice());
  }
  ASSIGN_OR_RETURN(const WireMessage reply, chief_->Call(beat, kBeatDeadline));
  const auto& heard = static_cast<const v1::BeatReply&>(*reply.head);
  RETURN_IF_ERROR(CheckReply(heard, index_, workers_.size()));
  return heard;
}

void MultiWorker::Unanswered(const absl::Status& why) {
  const Time now = MonotonicNow();
  if (unanswered_since_ == Time::Never()) unanswered_since_ = now;
  v1::BeatReply nothing;
  v1::BeatReply::Missing* const missing = nothing.add_missing();
  missing->set_since_ms(static_cast<uint64_t>(
      absl::ToInt64Milliseconds(now - unanswered_since_)));
  if (now - unanswered_since_ >= PatienceOf(job_.config)) {
    nothing.set_gave_up(
        absl::StrCat("the chief, ", NameOf(0), ", did not come back within ",
                     absl::FormatDuration(PatienceOf(job_.config)),
                     " (all_reduce.rejoin_timeout_ms): ", why.message()));
  }
  if (link_.urgent() && now >= next_look_) {
    next_look_ = now + kLookEvery;
    // It need not come back to say so.
    nothing.set_finished(IsFinished());
  }
  // A round goes on without the chief's word for as long as its links do.
  if (link_.urgent() || !nothing.gave_up().empty()) link_.Hear(nothing);
}

std::string MultiWorker::MissingText(
    const v1::BeatReply::Missing& missing) const {
  return absl::StrCat(NameOf(missing.worker()),
                      missing.doing().empty()
                          ? ", which is not heard"
                          : absl::StrCat(", which ", missing.doing()));
}

void MultiWorker::LogMissing() {
  std::vector<std::string> names;
  for (const v1::BeatReply::Missing& missing : link_.missing()) {
    const bool for_long = absl::Milliseconds(missing.since_ms()) >= kSayBehind;
    if (missing.doing().empty() && for_long) {
      names.push_back(MissingText(missing));
    }
  }
  const std::string text = absl::StrJoin(names, "; ");
  if (text == last_missing_) return;
  last_missing_ = text;
  if (!text.empty()) {
    Log(LogLevel::kWarning, "paused until all workers are here",
        {{"missing", text}});
  }
}

void MultiWorker::FillMembers(v1::JobStats* job) {
  job->clear_members();
  job->set_servers(0);
  job->set_workers(static_cast<uint32_t>(workers_.size()));
  const Time now = MonotonicNow();
  const MutexLock lock(&mutex_);
  for (uint32_t w = 0; w < workers_.size(); ++w) {
    v1::Member* const member = job->add_members();
    member->mutable_task()->set_type(v1::WORKER);
    member->mutable_task()->set_index(w);
    member->set_address(workers_[w]);
    const auto silent = rendezvous_.SilentFor(w, now);
    member->set_state(!silent.has_value()           ? v1::Member::AWAITED
                      : rendezvous_.IsHeard(w, now) ? v1::Member::ALIVE
                                                    : v1::Member::LOST);
    if (!silent.has_value()) continue;
    member->set_incarnation(rendezvous_.incarnation(w));
    member->set_silent_ms(
        static_cast<uint64_t>(absl::ToInt64Milliseconds(*silent)));
  }
}

void MultiWorker::FillStatus(v1::StatusReply* status) {
  std::vector<std::string> whom;
  for (const v1::BeatReply::Missing& missing : link_.missing()) {
    v1::Wait* const wait = status->add_waits();
    wait->set_who(absl::StrCat("worker-", index_));
    wait->set_whom(MissingText(missing));
    wait->set_since_ms(missing.since_ms());
    whom.push_back(wait->whom());
  }
  if (!is_chief()) return status->clear_job();
  FillMembers(status->mutable_job());
  if (whom.empty()) return;
  status->mutable_job()->set_waiting_for(absl::StrJoin(whom, "; "));
}

}  // namespace paramd
