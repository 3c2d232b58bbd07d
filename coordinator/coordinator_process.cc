#include "coordinator/coordinator_process.h"

#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "checkpoint/warm_start.h"
#include "coordinator/restorable.h"
#include "proto/message_json.h"

namespace paramd {
namespace {

IoResult ToIoResult(absl::Status status) {
  IoResult result;
  result.status = std::move(status);
  return result;
}

template <typename Reply>
IoResult ToIoResult(absl::StatusOr<Reply> reply) {
  IoResult result;
  result.status = reply.status();
  if (reply.ok()) result.head = std::make_unique<Reply>(*std::move(reply));
  return result;
}

// A start that finds no space, or a failing disk, may come again: space is
// freed and file systems are mounted again.
absl::Status AsUnavailable(const absl::Status& status) {
  const bool may_pass = absl::IsResourceExhausted(status) ||  // ENOSPC, EDQUOT
                        absl::IsUnknown(status);              // EIO
  return may_pass ? absl::UnavailableError(status.message()) : status;
}

// Makes the directory and writes a file there, so that a directory that can't
// be used is found when the process starts and not at the first checkpoint.
absl::Status CheckWritable(const std::string& directory) {
  RETURN_IF_ERROR(AsUnavailable(MakeDirectories(directory)));
  const std::string probe = absl::StrCat(directory, "/.probe-", getpid());
  // Of a process that was killed, and had this one's number.
  RemoveTree(probe).IgnoreError();
  return AsUnavailable(NewFile::Create(probe).status());
}

// An entry of the configuration log gets its name by a link, which only one of
// two coordinators can make.
absl::Status CheckHasLinks(const std::string& directory) {
  const std::string probe = absl::StrCat(directory, "/.probe-", getpid());
  const std::string other = absl::StrCat(probe, "-link");
  ASSIGN_OR_RETURN(const std::unique_ptr<NewFile> file, NewFile::Create(probe));
  ::unlink(other.c_str());  // Of a process that was killed.
  const int error = ::link(probe.c_str(), other.c_str()) == 0 ? 0 : errno;
  ::unlink(other.c_str());
  if (error == EPERM || error == EOPNOTSUPP || error == ENOSYS) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the file system of '", directory,
        "' has no hard links, which the "
        "configuration log needs: put run_dir on NFS, CephFS or a local disk, "
        "not on SMB"));
  }
  return absl::OkStatus();
}

// What the run's directory has no space for, or loses, is no reason to stay
// away: space is freed and file systems are mounted again.
absl::Status MayComeBack(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:  // ENOSPC, EDQUOT
    case absl::StatusCode::kUnknown:            // EIO
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      return absl::UnavailableError(status.message());
    default:
      return status;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorProcess>> CoordinatorProcess::Create(
    const Coordinator::Options& options, const Paths& paths,
    ChiefLease::Options chief) {
  Paths absolute;
  ASSIGN_OR_RETURN(absolute.run_directory, AbsolutePath(paths.run_directory));
  absolute.checkpoint_directory =
      absl::StrCat(absolute.run_directory, "/checkpoints");
  if (!paths.checkpoint_directory.empty()) {
    ASSIGN_OR_RETURN(absolute.checkpoint_directory,
                     AbsolutePath(paths.checkpoint_directory));
  }
  absolute.summary_directory = paths.summary_directory.empty()
                                   ? SummaryDirectory(absolute.run_directory)
                                   : paths.summary_directory;
  absolute.state_directory = absolute.run_directory;
  if (!paths.state_directory.empty()) {
    ASSIGN_OR_RETURN(absolute.state_directory,
                     AbsolutePath(paths.state_directory));
  }
  absolute.moves_at_success =
      paths.moves_at_success &&
      absolute.state_directory != absolute.run_directory;
  RETURN_IF_ERROR(CheckWritable(absolute.run_directory));
  // One that had checkpoints is not made anew.
  if (!IsDirectory(absolute.checkpoint_directory)) {
    RETURN_IF_ERROR(CommittedNote(absolute.run_directory)
                        .CheckNoneIsMissing(absolute.checkpoint_directory));
  }
  RETURN_IF_ERROR(CheckWritable(absolute.state_directory));
  RETURN_IF_ERROR(AsUnavailable(CheckHasLinks(absolute.state_directory)));
  RETURN_IF_ERROR(CheckWritable(absolute.checkpoint_directory));
  chief.run_directory = absolute.state_directory;
  auto lease = ChiefLease::Take(chief);
  RETURN_IF_ERROR(AsUnavailable(lease.status()));
  std::unique_ptr<CoordinatorProcess> process(
      new CoordinatorProcess(options, absolute));
  process->lease_ = *std::move(lease);
  return process;
}

CoordinatorProcess::CoordinatorProcess(const Coordinator::Options& options,
                                       const Paths& paths)
    : paths_(paths),
      core_(options),
      log_(LogDirectory(paths.state_directory)),
      checkpoints_(paths.checkpoint_directory, options.nonce_seed),
      committed_(paths.run_directory),
      summaries_(paths.summary_directory),
      storage_("storage"),
      logging_("log"),
      summarizing_("summaries"),
      reading_("restore") {}

std::string CoordinatorProcess::LogDirectory(
    const std::string& state_directory) {
  return absl::StrCat(state_directory, "/configuration");
}

std::string CoordinatorProcess::SummaryDirectory(
    const std::string& run_directory) {
  return absl::StrCat(run_directory, "/summaries");
}

template <typename Request, typename Work>
void CoordinatorProcess::Handle(Runtime* runtime, WorkerThread* thread,
                                Work work) {
  runtime->HandleIo(
      Request::descriptor(),
      [this, thread, work](Outbox::IoItem item, Runtime::IoDone done) {
        const auto& request = static_cast<const Request&>(*item.head);
        thread->Post([this, work, request, done = std::move(done)] {
          const absl::Status may = fence_.MayDo(Request::descriptor());
          done(may.ok() ? ToIoResult(work(request)) : ToIoResult(may));
        });
      });
}

template <typename Request, typename Work>
void CoordinatorProcess::HandleCheckpoints(Runtime* runtime, Work work) {
  Handle<Request>(runtime, [this, work](const Request& request) {
    auto result = work(request);
    directory_lost_.store(checkpoints_.held().lost());
    return result;
  });
}

void CoordinatorProcess::AddTo(Runtime* runtime) {
  runtime->AddCore(PeerId::Coordinator(), &core_);
  runtime->OnStatus([this](v1::StatusReply* status) {
    core_.FillStatus(status);
    status->mutable_job()->set_checkpoint_directory_lost(directory_lost_);
  });
  Handle<v1::ReadLog>(runtime,
                      [this](const v1::ReadLog&) { return ReadLog(); });
  Handle<v1::AppendLog>(
      runtime, &logging_, [this](const v1::AppendLog& append) {
        return MayComeBack(log_.Append(fence_.Guarded(append.entry())));
      });
  AddCheckpointsTo(runtime);
  Handle<v1::WriteSummary>(runtime, &summarizing_,
                           [this](const v1::WriteSummary& summary) {
                             return summaries_.Write(summary, absl::Now());
                           });
  runtime->HandleIo(v1::WriteFetched::descriptor(), [this](
                                                        Outbox::IoItem item,
                                                        Runtime::IoDone done) {
    auto work = std::make_shared<Outbox::IoItem>(std::move(item));
    storage_.Post([this, work, done = std::move(done)] {
      done(ToIoResult(fetched_.Write(
          static_cast<const v1::WriteFetched&>(*work->head), work->payload)));
    });
  });
  runtime->HandleIo(
      v1::ReadForServer::descriptor(),
      [this](Outbox::IoItem item, Runtime::IoDone done) {
        auto work = std::make_shared<Outbox::IoItem>(std::move(item));
        reading_.Post([this, work, done = std::move(done)] {
          done(Read(static_cast<const v1::ReadForServer&>(*work->head)));
        });
      });
  Handle<v1::WriteResult>(runtime, [this](const v1::WriteResult& result) {
    absl::Status written = MayComeBack(WriteResult(result));
    if (written.ok() && has_result_ != nullptr) has_result_();
    return written;
  });
}

void CoordinatorProcess::AddCheckpointsTo(Runtime* runtime) {
  HandleCheckpoints<v1::PrepareCheckpoint>(
      runtime, [this](const v1::PrepareCheckpoint& prepare) {
        return checkpoints_.Prepare(prepare);
      });
  HandleCheckpoints<v1::CommitCheckpoint>(
      runtime,
      [this](const v1::CommitCheckpoint& commit) { return Commit(commit); });
  HandleCheckpoints<v1::DeleteCheckpoints>(
      runtime, [this](const v1::DeleteCheckpoints& request) {
        return checkpoints_.Delete(request);
      });
  HandleCheckpoints<v1::FindCheckpoint>(
      runtime, [this](const v1::FindCheckpoint& find) { return Find(find); });
}

absl::StatusOr<v1::ReadLogResult> CoordinatorProcess::ReadLog() {
  if (before_log_ != nullptr) RETURN_IF_ERROR(before_log_());
  const absl::Status removed = log_.RemoveCutOff();
  if (!removed.ok()) {
    Log(LogLevel::kWarning, "what a killed chief left stays",
        {{"reason", removed.message()}});
  }
  ASSIGN_OR_RETURN(auto entries, log_.ReadAll());
  v1::ReadLogResult result;
  for (v1::LogEntry& entry : entries) {
    *result.add_entries() = std::move(entry);
  }
  RETURN_IF_ERROR(fence_.CheckNotFollowed(result.entries()));
  return result;
}

absl::StatusOr<v1::CommitCheckpointResult> CoordinatorProcess::Commit(
    const v1::CommitCheckpoint& commit) {
  ASSIGN_OR_RETURN(auto committed, checkpoints_.Commit(commit));
  const absl::Status noted = committed_.Committed(paths_.checkpoint_directory,
                                                  checkpoints_.held().marker());
  if (!noted.ok()) {
    Log(LogLevel::kWarning, "the note of checkpoints cannot be written",
        {{"reason", noted.message()}});
  }
  return committed;
}

absl::StatusOr<v1::FindCheckpointResult> CoordinatorProcess::Find(
    const v1::FindCheckpoint& find) {
  ASSIGN_OR_RETURN(v1::FindCheckpointResult found,
                   FindRestorable(find, &checkpoints_));
  if (found.has_manifest()) {
    RETURN_IF_ERROR(committed_.CheckIsSame(paths_.checkpoint_directory,
                                           checkpoints_.held().marker()));
    return found;
  }
  RETURN_IF_ERROR(committed_.CheckNoneIsMissing(paths_.checkpoint_directory));
  if (!find.has_warm_start()) return found;
  const std::vector<v1::Variable> variables(find.variables().begin(),
                                            find.variables().end());
  ASSIGN_OR_RETURN(*found.mutable_warm_start(),
                   FindWarmStart(find.warm_start(), variables));
  return found;
}

IoResult CoordinatorProcess::Read(const v1::ReadForServer& request) {
  if (request.has_initial()) {
    IoResult result;
    auto read = std::make_unique<v1::ReadWarmStartResult>();
    result.status =
        ReadWarmStart(request.initial(), read.get(), &result.payload);
    result.head = std::move(read);
    return result;
  }
  RestoreReader& reader = readers_[request.server()];
  IoResult result;
  auto read = std::make_unique<v1::ReadSlicesResult>();
  result.status = reader.Read(request.read(), read.get(), &result.payload);
  result.head = std::move(read);
  if (request.read().last() || !result.status.ok()) {
    readers_.erase(request.server());
  }
  return result;
}

absl::Status CoordinatorProcess::WriteResult(v1::WriteResult result) const {
  if (paths_.moves_at_success && !result.checkpoint_path().empty()) {
    const std::string& path = result.checkpoint_path();
    result.set_checkpoint_path(
        absl::StrCat(paths_.run_directory, "/checkpoints/",
                     absl::string_view(path).substr(path.rfind('/') + 1)));
  }
  ASSIGN_OR_RETURN(const std::string text, MessageJson(result));
  const std::string path = absl::StrCat(paths_.run_directory, "/result.json");
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  RETURN_IF_ERROR(RemoveTree(temporary));
  ASSIGN_OR_RETURN(auto file, NewFile::Create(temporary));
  RETURN_IF_ERROR(file->Append(absl::string_view(text)));
  return file->FinishAs(path);
}

}  // namespace paramd
