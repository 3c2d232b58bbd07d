#include "process/mirrors.h"

#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "config/strategy.h"
#include "coordinator/coordinator_process.h"
#include "net/in_process_runtime.h"
#include "process/run_directory.h"
#include "worker/collective/in_process_collective.h"
#include "worker/model_factory.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

std::string DirectoryOf(const v1::JobConfig& job) {
  return absl::StrCat(job.run_dir(), "/replicas");
}

// What nobody reads is not written.
constexpr uint64_t kNever = 1000000000000;

// Files below `from`, which never change once they have their names, are
// linked; where that can't be, copied.
absl::Status LinkTree(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::create_directories(to, error);
  for (fs::recursive_directory_iterator entry(from, error), end;
       !error && entry != end; entry.increment(error)) {
    const fs::path target = to / fs::relative(entry->path(), from, error);
    const std::string name = entry->path().filename().string();
    if (entry->is_directory()) {
      // What is not committed is nobody's.
      if (absl::StartsWith(name, ".")) {
        entry.disable_recursion_pending();
        continue;
      }
      fs::create_directories(target, error);
      continue;
    }
    // A lock and a lease are of the first one's process.
    if (!entry->is_regular_file() || absl::StartsWith(name, "chief")) continue;
    std::error_code link_error;
    fs::create_hard_link(entry->path(), target, link_error);
    if (link_error) fs::copy_file(entry->path(), target, error);
    if (error) break;
  }
  if (!error || error == std::errc::no_such_file_or_directory) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrCat("cannot copy '", from.string(),
                                          "' to '", to.string(),
                                          "': ", error.message()));
}

}  // namespace

Mirrors::Mirrors(const LoadedJob& job, std::vector<std::string> devices)
    : job_(job),
      devices_(std::move(devices)),
      meeting_(std::make_shared<ReplicaMeeting>(devices_.size())) {}

absl::StatusOr<std::unique_ptr<Mirrors>> Mirrors::Create(LoadedJob* job) {
  ASSIGN_OR_RETURN(std::vector<std::string> devices,
                   DevicesOfReplicas(job->config));
  job->config.set_device(devices.front());
  std::unique_ptr<Mirrors> mirrors(new Mirrors(*job, std::move(devices)));
  auto members = MakeInProcessCollective(ReplicasOf(job->config));
  for (auto& member : members) {
    auto replica = std::make_unique<Replica>();
    MirrorExchange::Options options;
    options.bucket_bytes = job->config.all_reduce().bucket_bytes();
    options.check_every_steps = job->config.all_reduce().check_every_steps();
    options.meeting = mirrors->meeting_;
    const size_t k = mirrors->replicas_.size();
    if (k > 0) {
      // The first one may end, and stop this one, before this one has.
      options.failed = [mirrors = mirrors.get(), k](const absl::Status& why) {
        mirrors->Failed(k, why);
      };
    }
    options.checksum = [replica = replica.get()] {
      return replica->process->Checksum(replica->runtime);
    };
    replica->exchange =
        std::make_unique<MirrorExchange>(options, std::move(member));
    mirrors->replicas_.push_back(std::move(replica));
  }
  return mirrors;
}

ReplicaGroup Mirrors::GroupOf(size_t k) const {
  return {.meeting = meeting_,
          .rank = k,
          .bucket_bytes = job_.config.all_reduce().bucket_bytes()};
}

Membership Mirrors::first() {
  return {.exchange = replicas_.front()->exchange.get(),
          .replicas = 1,
          .group = GroupOf(0)};
}

absl::Status Mirrors::CopyRun(size_t k, LoadedJob* job) const {
  const std::string directory = absl::StrCat(DirectoryOf(job_.config), "/", k);
  const fs::path from(std::string(job_.config.run_dir()));
  const std::string checkpoints = job_.config.checkpoint().directory();
  std::error_code error;
  fs::remove_all(directory, error);  // Of a process that was killed.
  RETURN_IF_ERROR(UseRunDirectory(directory, /*may_hold_a_run=*/true));
  RETURN_IF_ERROR(
      LinkTree(CoordinatorProcess::LogDirectory(StateDirectory(job_.config)),
               CoordinatorProcess::LogDirectory(directory)));
  RETURN_IF_ERROR(LinkTree(checkpoints, directory + "/checkpoints"));
  *job = job_;
  v1::JobConfig& config = job->config;
  config.set_run_dir(directory);
  config.set_device(devices_[k]);
  config.mutable_checkpoint()->set_directory(directory + "/checkpoints");
  config.mutable_checkpoint()->set_every_steps(0);
  config.mutable_checkpoint()->set_every_seconds(0);
  config.mutable_backup_and_restore()->clear_directory();
  config.mutable_summary()->set_directory(directory + "/summaries");
  config.mutable_summary()->set_every_steps(kNever);
  return absl::OkStatus();
}

absl::Status Mirrors::MakeOthers(const ProcessRole& role,
                                 const ModelFactory& models, Process* first,
                                 Runtime* runtime,
                                 const MakeLoopDevice& loops) {
  replicas_.front()->process = first;
  replicas_.front()->runtime = runtime;
  for (size_t k = 1; k < replicas_.size(); ++k) {
    Replica& replica = *replicas_[k];
    RETURN_IF_ERROR(CopyRun(k, &replica.job));
    ProcessRole own = role;
    own.incarnation = StableHash("replica", role.incarnation + k);
    ASSIGN_OR_RETURN(
        replica.own_process,
        Process::Create(own, replica.job, models, /*trace_path=*/"",
                        {.exchange = replica.exchange.get(),
                         .replicas = 1,
                         .group = GroupOf(k),
                         .evaluates = false},
                        loops));
    replica.own_runtime = MakeInProcessRuntime();
    replica.own_process->AddTo(replica.own_runtime.get());
    replica.process = replica.own_process.get();
    replica.runtime = replica.own_runtime.get();
  }
  return absl::OkStatus();
}

void Mirrors::Failed(size_t k, const absl::Status& why) {
  // One that is cancelled ends because another one has.
  if (absl::IsCancelled(why)) return;
  const MutexLock lock(&mutex_);
  if (!failure_.ok()) return;
  failure_ = absl::Status(why.code(),
                          absl::StrCat("replica ", k, ": ", why.message()));
}

void Mirrors::RunOther(size_t k) {
  Replica& replica = *replicas_[k];
  const absl::Status status = replica.process->Run(replica.runtime);
  if (status.ok() || absl::IsCancelled(status)) return;
  Failed(k, status);
  replica.exchange->Interrupt();
  replicas_.front()->runtime->Stop(status);
}

absl::Status Mirrors::Run() {
  std::vector<std::thread> threads;
  for (size_t k = 1; k < replicas_.size(); ++k) {
    threads.emplace_back([this, k] { RunOther(k); });
  }
  Replica& first = *replicas_.front();
  absl::Status status = first.process->Run(first.runtime);
  first.exchange->Interrupt();
  for (size_t k = 1; k < replicas_.size(); ++k) {
    replicas_[k]->runtime->Stop(absl::CancelledError("the first has ended"));
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 1; k < replicas_.size(); ++k) {
    replicas_[k]->own_runtime.reset();
    replicas_[k]->own_process.reset();
  }
  std::error_code error;
  fs::remove_all(DirectoryOf(job_.config), error);
  const MutexLock lock(&mutex_);
  return !status.ok() && !failure_.ok() ? failure_ : status;
}

}  // namespace paramd
