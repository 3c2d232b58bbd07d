#include "process/content_exchange.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/directory.h"
#include "checkpoint/manifest.h"
#include "checkpoint/verify.h"
#include "config/job_config.h"
#include "coordinator/configuration_log.h"
#include "coordinator/coordinator_process.h"
#include "proto/refusal.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = size_t{2} << 20;
constexpr absl::Duration kDeadline = absl::Seconds(10);
constexpr absl::Duration kAskAgain = absl::Milliseconds(10);
constexpr char kLog[] = "configuration/";
constexpr char kCheckpoint[] = "checkpoint/";

std::string CheckpointsOf(const v1::JobConfig& job) {
  return job.checkpoint().directory().empty()
             ? absl::StrCat(job.run_dir(), "/checkpoints")
             : job.checkpoint().directory();
}

// Files of one directory, which is flat.
absl::Status AddFiles(const std::string& directory, const std::string& prefix,
                      std::map<std::string, std::string>* files) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    // A lock and a lease are of the process.
    if (absl::StartsWith(name, "chief") || absl::StartsWith(name, ".")) {
      continue;
    }
    std::error_code unknown;
    if (entry->is_regular_file(unknown)) {
      (*files)[absl::StrCat(prefix, name)] = entry->path().string();
    } else if (unknown && unknown != std::errc::no_such_file_or_directory) {
      error = unknown;
      break;
    }
  }
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cannot list '", directory, "': ", error.message()));
}

// Names come from whoever answers, and become names of files here.
absl::Status CheckNames(const v1::ReadStateReply& reply) {
  for (const v1::ReadStateReply::File& file : reply.files()) {
    absl::string_view name = file.name();
    const bool is_known = absl::ConsumePrefix(&name, kLog) ||
                          absl::ConsumePrefix(&name, kCheckpoint);
    const bool is_plain = !name.empty() && name[0] != '.' &&
                          !absl::StrContains(name, '/') &&
                          !absl::StrContains(name, '\0');
    if (is_known && is_plain) continue;
    return absl::DataLossError(absl::StrCat(
        "another worker names a file '", absl::CHexEscape(file.name()),
        "', which is none of a log or a checkpoint: is it of this job?"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPiece(const std::string& path,
                                      uint64_t offset) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string piece(kPieceBytes, '\0');
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
  piece.resize(file.gcount());
  return piece;
}

}  // namespace

// ---- the one that has it ----------------------------------------------------

absl::StatusOr<ProcessAnswer> ContentSource::Read(
    const v1::ReadStateRequest& request, uint64_t standing_in) {
  ProcessAnswer answer;
  auto reply = std::make_unique<v1::ReadStateReply>();
  if (standing_in == 0) {
    reply->set_not_yet(true);
    answer.head = std::move(reply);
    return answer;
  }
  if (request.round() != standing_in) {
    return absl::FailedPreconditionError(
        absl::StrCat("round ", request.round(), " is over"));
  }
  if (round_ != standing_in) {
    round_ = standing_in;
    files_.clear();
    wanted_.Clear();
    is_asking_ = false;
  }
  if (files_.empty()) {
    if (!is_asking_ && now_() >= next_attempt_) Prepare();
    reply->set_not_yet(true);
  } else if (request.file().empty()) {
    for (const auto& [name, path] : files_) {
      std::error_code error;
      v1::ReadStateReply::File* const file = reply->add_files();
      file->set_name(name);
      file->set_bytes(fs::file_size(path, error));
      if (error) {
        return absl::NotFoundError(
            absl::StrCat("cannot read ", path, ": ", error.message()));
      }
    }
  } else {
    const auto file = files_.find(request.file());
    if (file == files_.end()) {
      return absl::NotFoundError(
          absl::StrCat("there is no file '", request.file(), "'"));
    }
    ASSIGN_OR_RETURN(std::string piece,
                     ReadPiece(file->second, request.offset()));
    answer.payload.push_back(Buffer::Copy(piece));
  }
  answer.head = std::move(reply);
  return answer;
}

void ContentSource::Prepare() {
  const v1::JobStats job = runtime_->Status().job();
  if (!job.checkpoint_path().empty() &&
      job.checkpoint_step() == job.global_step()) {
    const absl::Status listed = List(job.checkpoint_path());
    if (listed.ok()) return;
    files_.clear();
  }
  if (IsZero(wanted_)) {
    Log(LogLevel::kInfo,
        "another worker needs what this one has: writes a checkpoint for it");
  }
  auto request = std::make_unique<v1::CheckpointRequest>();
  *request->mutable_snapshot() = wanted_;
  is_asking_ = true;
  runtime_->Ask(
      PeerId::Coordinator(), std::move(request), kDeadline,
      [this, round = round_](const absl::Status& status, const auto* reply) {
        OnCheckpoint(round, status, reply);
      });
}

void ContentSource::OnCheckpoint(uint64_t round, const absl::Status& status,
                                 const google::protobuf::Message* reply) {
  if (round != round_) return;
  is_asking_ = false;
  absl::Status listed = status;
  if (status.ok()) {
    const auto& written = static_cast<const v1::CheckpointReply&>(*reply);
    wanted_ = written.snapshot();
    if (!written.path().empty()) listed = List(written.path());
  }
  if (!listed.ok()) {
    wanted_.Clear();
    files_.clear();
    next_attempt_ = now_() + kPause;
    Log(LogLevel::kWarning, "no checkpoint for a worker that has none yet",
        {{"why", listed.message()}});
  }
}

absl::Status ContentSource::List(const std::string& checkpoint) {
  RETURN_IF_ERROR(AddFiles(
      CoordinatorProcess::LogDirectory(StateDirectory(job_)), kLog, &files_));
  return AddFiles(checkpoint, kCheckpoint, &files_);
}

// ---- the one that takes it --------------------------------------------------

namespace {

class Taker {
 public:
  Taker(const v1::JobConfig& job, uint64_t nonce, uint64_t round,
        const AskSource& source, const std::function<bool()>& goes_on)
      : job_(job),
        nonce_(nonce),
        round_(round),
        source_(source),
        goes_on_(goes_on) {}

  absl::Status Take() {
    ASSIGN_OR_RETURN(const auto files, AwaitFiles());
    RETURN_IF_ERROR(TakeLog(files));
    return TakeCheckpoint(files);
  }

 private:
  using Files = std::vector<v1::ReadStateReply::File>;

  absl::StatusOr<WireMessage> Ask(const std::string& file, uint64_t offset) {
    v1::ReadStateRequest request;
    request.set_round(round_);
    request.set_file(file);
    request.set_offset(offset);
    while (goes_on_()) {
      absl::StatusOr<WireMessage> reply = source_(request);
      if (!absl::IsUnavailable(reply.status())) return reply;
      absl::SleepFor(kAskAgain);
    }
    return absl::AbortedError("the round is over");
  }

  absl::StatusOr<Files> AwaitFiles() {
    while (true) {
      ASSIGN_OR_RETURN(const WireMessage message, Ask("", 0));
      const auto& reply = static_cast<const v1::ReadStateReply&>(*message.head);
      if (!reply.not_yet()) {
        RETURN_IF_ERROR(CheckNames(reply));
        return Files(reply.files().begin(), reply.files().end());
      }
      absl::SleepFor(kAskAgain);
    }
  }

  absl::Status Fetch(const v1::ReadStateReply::File& file,
                     const std::string& path) {
    std::ofstream to(path, std::ios::binary | std::ios::trunc);
    for (uint64_t offset = 0; offset < file.bytes();) {
      ASSIGN_OR_RETURN(const WireMessage message, Ask(file.name(), offset));
      const uint64_t before = offset;
      for (const Buffer& piece : message.payload) {
        const auto bytes = piece.bytes();
        to.write(reinterpret_cast<const char*>(bytes.data()),
                 static_cast<std::streamsize>(bytes.size()));
        offset += bytes.size();
      }
      if (offset == before) {
        return absl::DataLossError(
            absl::StrCat("'", file.name(), "' has become shorter"));
      }
    }
    to.close();
    if (to) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("cannot write ", path));
  }

  absl::Status TakeLog(const Files& files) {
    const std::string directory =
        CoordinatorProcess::LogDirectory(StateDirectory(job_));
    ASSIGN_OR_RETURN(entries_, DirectoryLog(directory).ReadAll());
    if (!entries_.empty()) return absl::OkStatus();
    // An entry is there whole or not at all, whenever the source is lost.
    const std::string aside = absl::StrCat(job_.run_dir(), "/log.taken");
    std::error_code error;
    fs::remove_all(aside, error);
    fs::create_directories(aside, error);
    fs::create_directories(directory, error);
    std::vector<std::string> names;  // In order: they are numbers of one width.
    for (const v1::ReadStateReply::File& file : files) {
      absl::string_view name = file.name();
      if (!absl::ConsumePrefix(&name, kLog)) continue;
      names.emplace_back(name);
      RETURN_IF_ERROR(Fetch(file, absl::StrCat(aside, "/", name)));
    }
    for (const std::string& name : names) {
      fs::rename(absl::StrCat(aside, "/", name),
                 absl::StrCat(directory, "/", name), error);
      if (error) {
        return absl::InternalError(absl::StrCat("cannot write to '", directory,
                                                "': ", error.message()));
      }
    }
    fs::remove_all(aside, error);
    ASSIGN_OR_RETURN(entries_, DirectoryLog(directory).ReadAll());
    return absl::OkStatus();
  }

  // A term for the checkpoint, above all that this run has and all that the
  // checkpoint knows: its records would take a session of the same name for one
  // whose pushes are in it.
  absl::StatusOr<v1::LogEntry> TakeTerm(const v1::Manifest& manifest) {
    v1::LogEntry entry;
    entry.set_number(1);
    uint64_t term = manifest.snapshot().term();
    for (const v1::LogEntry& one : entries_) {
      term = std::max({term, one.term(), one.configuration().version().term()});
      entry.set_number(one.number() + 1);
      entry.set_run_id(one.run_id());
    }
    entry.set_term(term + 1);
    entry.set_nonce(nonce_);
    RETURN_IF_ERROR(
        DirectoryLog(CoordinatorProcess::LogDirectory(StateDirectory(job_)))
            .Append(entry));
    return entry;
  }

  // With its checksum.
  absl::StatusOr<v1::Manifest> TakeManifest(const Files& files) {
    const std::string aside = absl::StrCat(job_.run_dir(), "/manifest.taken");
    std::error_code error;
    fs::remove_all(aside, error);
    fs::create_directories(aside, error);
    for (const v1::ReadStateReply::File& file : files) {
      absl::string_view name = file.name();
      if (!absl::ConsumePrefix(&name, kCheckpoint) ||
          (name != kManifestFile && name != kManifestSumFile)) {
        continue;
      }
      RETURN_IF_ERROR(Fetch(file, absl::StrCat(aside, "/", name)));
    }
    auto manifest = ReadManifest(aside);
    fs::remove_all(aside, error);
    if (!absl::IsNotFound(manifest.status())) return manifest;
    return absl::DataLossError("a checkpoint without a manifest");
  }

  absl::Status TakeCheckpoint(const Files& files) {
    v1::CommitCheckpoint commit;
    ASSIGN_OR_RETURN(*commit.mutable_manifest(), TakeManifest(files));
    ASSIGN_OR_RETURN(const v1::LogEntry entry, TakeTerm(commit.manifest()));
    CheckpointDirectory checkpoints(CheckpointsOf(job_), nonce_);
    v1::PrepareCheckpoint prepare;
    prepare.mutable_snapshot()->set_term(entry.term());
    prepare.mutable_snapshot()->set_counter(1);
    prepare.set_run_id(entry.run_id());
    ASSIGN_OR_RETURN(const auto prepared, checkpoints.Prepare(prepare));
    for (const v1::ReadStateReply::File& file : files) {
      absl::string_view name = file.name();
      if (!absl::ConsumePrefix(&name, kCheckpoint)) continue;
      RETURN_IF_ERROR(
          Fetch(file, absl::StrCat(prepared.directory(), "/", name)));
    }
    commit.set_directory(prepared.directory());
    *commit.mutable_manifest()->mutable_snapshot() = prepare.snapshot();
    ASSIGN_OR_RETURN(const auto committed, checkpoints.Commit(commit));
    Log(LogLevel::kInfo, "took over what another worker has",
        {{"path", committed.path()}, {"bytes", committed.bytes()}});
    return absl::OkStatus();
  }

  const v1::JobConfig& job_;
  const uint64_t nonce_;
  const uint64_t round_;
  const AskSource& source_;
  const std::function<bool()>& goes_on_;
  std::vector<v1::LogEntry> entries_;
};

}  // namespace

absl::Status TakeContent(const v1::JobConfig& job, uint64_t nonce,
                         uint64_t round, const AskSource& source,
                         const std::function<bool()>& goes_on) {
  return Taker(job, nonce, round, source, goes_on).Take();
}

}  // namespace paramd
