#include "checkpoint/directory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/crc32c.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"
#include "checkpoint/nonce_file.h"
#include "checkpoint/quantization.h"
#include "checkpoint/read_again.h"
#include "proto/refusal.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

constexpr char kTemporary[] = ".tmp-";
constexpr char kTrash[] = ".trash-";

std::string TemporaryName(const v1::SnapshotNumber& snapshot, uint64_t nonce) {
  return absl::StrFormat("%s%06d-%08d-%016x", kTemporary, snapshot.term(),
                         snapshot.counter(), nonce);
}

// The snapshot whose name, committed or not, this is.
absl::optional<v1::SnapshotNumber> SnapshotOf(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kTemporary)) {
    absl::ConsumePrefix(&name, kTrash);
  }
  const std::vector<absl::string_view> parts =
      absl::StrSplit(name, absl::ByAnyChar("-."));
  uint64_t term, counter;
  if (parts.size() < 3 || !absl::SimpleAtoi(parts[0], &term) ||
      !absl::SimpleAtoi(parts[1], &counter)) {
    return absl::nullopt;
  }
  v1::SnapshotNumber snapshot;
  snapshot.set_term(term);
  snapshot.set_counter(counter);
  return snapshot;
}

bool IsRetired(const v1::SnapshotNumber& snapshot,
               const v1::FindCheckpoint& request) {
  return std::find(request.retired().begin(), request.retired().end(),
                   snapshot) != request.retired().end();
}

// The manifest of the checkpoint at `path`, unless something is wrong with it
// that can be told without reading numbers, or is known.
absl::StatusOr<v1::Manifest> ReadValidManifest(
    const std::string& path, const v1::SnapshotNumber& snapshot,
    const v1::FindCheckpoint& request) {
  for (const v1::FindCheckpoint::Damaged& damaged : request.damaged()) {
    if (damaged.snapshot() == snapshot) {
      return absl::DataLossError(damaged.why());
    }
  }
  CheckpointVerifier::Options verify;
  verify.sums = CheckpointVerifier::Options::Sums::kNone;
  return VerifyCheckpoint(path, verify);
}

// A quantised checkpoint is no directory of a run, though it may lie where one
// would.
absl::Status CheckIsNoneItself(const std::string& directory) {
  if (!ReadableFile::Open(absl::StrCat(directory, "/", kQuantizedFile)).ok()) {
    return absl::OkStatus();
  }
  const auto manifest = ReadManifest(directory);
  return manifest.ok() ? CheckCanGoOn(directory, *manifest) : absl::OkStatus();
}

}  // namespace

bool IsPreparedName(absl::string_view name) {
  const auto snapshot = SnapshotOf(name);
  uint64_t nonce;
  return snapshot.has_value() &&
         absl::SimpleHexAtoi(name.substr(name.rfind('-') + 1), &nonce) &&
         name == TemporaryName(*snapshot, nonce);
}

CheckpointDirectory::CheckpointDirectory(std::string root, uint64_t nonce)
    : root_(std::move(root)),
      nonce_(nonce),
      held_(AbsolutePath(root_).value_or(root_), nonce) {}

absl::Status CheckpointDirectory::CheckTerm(
    const std::vector<std::string>& names,
    const v1::SnapshotNumber& snapshot) const {
  for (const std::string& name : names) {
    const auto other = SnapshotOf(name);
    if (other.has_value() && other->term() > snapshot.term()) {
      return absl::AbortedError(absl::StrCat("snapshot ", VersionName(snapshot),
                                             " is of an old term: '", root_,
                                             "/", name, "' is of a newer one"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::PrepareCheckpointResult> CheckpointDirectory::Prepare(
    const v1::PrepareCheckpoint& request) {
  ASSIGN_OR_RETURN(const std::string root, AbsolutePath(root_));
  if (held_.held()) RETURN_IF_ERROR(held_.Check());
  if (IsDirectory(root)) {
    ASSIGN_OR_RETURN(const auto others, ListCheckpointNames(root));
    RETURN_IF_ERROR(CheckRun(root, others, request.run_id()));
  }
  RETURN_IF_ERROR(held_.Make(request.run_id()));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(root));
  RETURN_IF_ERROR(CheckTerm(names, request.snapshot()));
  DeleteLeftovers(root, request.snapshot());
  const std::string directory =
      absl::StrCat(root, "/", TemporaryName(request.snapshot(), nonce_));
  RETURN_IF_ERROR(MakeDirectory(directory));
  RETURN_IF_ERROR(WriteNonceFile(directory, nonce_));
  v1::PrepareCheckpointResult result;
  result.set_directory(directory);
  result.set_nonce(nonce_);
  return result;
}

absl::Status CheckpointDirectory::CheckCommit(
    const std::string& root, const v1::CommitCheckpoint& request) const {
  const std::string& directory = request.directory();
  const v1::SnapshotNumber& snapshot = request.manifest().snapshot();
  const std::string name = directory.substr(directory.rfind('/') + 1);
  const auto prepared = SnapshotOf(name);
  if (DirectoryOf(directory) != root || !absl::StartsWith(name, kTemporary) ||
      !prepared.has_value() || *prepared != snapshot) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", directory, "' was not prepared for snapshot ",
                     VersionName(snapshot)));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(root));
  RETURN_IF_ERROR(CheckTerm(names, snapshot));
  for (const std::string& other : names) {
    const auto committed = ParseCheckpointName(other);
    if (committed.has_value() && committed->snapshot == snapshot) {
      return absl::AbortedError(absl::StrCat("snapshot ", VersionName(snapshot),
                                             " is committed already: '", root,
                                             "/", other, "'"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteManifestFiles(const std::string& directory,
                                const v1::Manifest& manifest) {
  ASSIGN_OR_RETURN(const auto index, EncodeTensorIndex(directory, manifest));
  ASSIGN_OR_RETURN(const std::string text, EncodeManifest(manifest));
  const std::string sum = absl::StrFormat(
      "%08x\n", Crc32c(AsBytes<char>({text.data(), text.size()})));
  const auto write = [&](absl::string_view name, absl::string_view content) {
    const std::string path = absl::StrCat(directory, "/", name);
    // What an attempt before this one left.
    RETURN_IF_ERROR(RemoveTree(path));
    ASSIGN_OR_RETURN(const auto file, NewFile::Create(path));
    RETURN_IF_ERROR(file->Append(content));
    return file->Finish();
  };
  if (index.has_value()) RETURN_IF_ERROR(write(kTensorIndexFile, *index));
  RETURN_IF_ERROR(write(kManifestSumFile, sum));
  RETURN_IF_ERROR(write(kManifestFile, text));
  return SyncDirectory(directory);
}

absl::StatusOr<v1::CommitCheckpointResult> CheckpointDirectory::Commit(
    const v1::CommitCheckpoint& request) {
  ASSIGN_OR_RETURN(const std::string root, AbsolutePath(root_));
  RETURN_IF_ERROR(held_.Check());
  RETURN_IF_ERROR(CheckCommit(root, request));
  ASSIGN_OR_RETURN(const auto others, ListCheckpointNames(root));
  RETURN_IF_ERROR(CheckRun(root, others, request.manifest().run_id()));
  v1::Manifest manifest = request.manifest();
  manifest.set_format(FormatOf(manifest));
  manifest.set_min_reader(FormatOf(manifest));
  if (manifest.created().empty()) {
    manifest.set_created(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(),
                                          absl::UTCTimeZone()));
  }
  CheckpointVerifier::Options verify;
  verify.sums =
      CheckpointVerifier::Options::Sums::kOwn;  // Committed, and summed again
                                                // when it is restored.
  RETURN_IF_ERROR(VerifyFiles(request.directory(), manifest, verify));
  RETURN_IF_ERROR(WriteManifestFiles(request.directory(), manifest));
  RETURN_IF_ERROR(
      RemoveTree(absl::StrCat(request.directory(), "/", kNonceFile)));
  const std::string path = absl::StrCat(
      root, "/",
      FormatCheckpointName(manifest.snapshot(), manifest.global_step()));
  RETURN_IF_ERROR(held_.Check());
  RETURN_IF_ERROR(CheckCommit(root, request));
  const absl::Status renamed = RenamePath(request.directory(), path);
  if (absl::IsAlreadyExists(renamed)) {
    return absl::AbortedError(absl::StrCat("somebody else has committed '",
                                           path, "' at this moment"));
  }
  RETURN_IF_ERROR(renamed);
  RETURN_IF_ERROR(SyncDirectory(root));
  RETURN_IF_ERROR(held_.Check());  // It was renamed in there.

  v1::CommitCheckpointResult result;
  result.set_path(path);
  result.set_bytes(CheckpointBytes(manifest));
  for (const v1::SnapshotNumber& old :
       ChooseToRetire(root, request.retention())) {
    *result.add_to_retire() = old;
  }
  DeleteLeftovers(root, manifest.snapshot());
  return result;
}

void CheckpointDirectory::DeleteLeftovers(const std::string& root,
                                          const v1::SnapshotNumber& snapshot) {
  const auto names = ListDirectory(root);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, kTemporary) &&
        !absl::StartsWith(name, kTrash)) {
      continue;
    }
    const auto left = SnapshotOf(name);
    if (!left.has_value() || !(*left < snapshot)) continue;
    const absl::Status deleted = RemoveTree(absl::StrCat(root, "/", name));
    if (!deleted.ok()) {
      Log(LogLevel::kWarning, "leftover of a checkpoint stays",
          {{"reason", deleted.message()}});
    }
  }
}

// A damaged one is known by its name alone.
absl::StatusOr<CheckpointSummary> CheckpointDirectory::SummaryOf(
    const std::string& root, const CheckpointName& name) const {
  const auto manifest = ReadManifest(absl::StrCat(root, "/", name.name));
  CheckpointSummary summary;
  summary.snapshot = name.snapshot;
  summary.step = name.step;
  if (manifest.ok()) summary = Summarize(*manifest);
  if (manifest.ok() || absl::IsDataLoss(manifest.status()) ||
      absl::IsNotFound(manifest.status())) {
    return summary;
  }
  return manifest.status();
}

std::vector<v1::SnapshotNumber> CheckpointDirectory::ChooseToRetire(
    const std::string& root, const v1::Retention& retention) {
  const auto committed = ListCheckpointNames(root);
  if (!committed.ok()) return {};
  std::map<std::pair<uint64_t, uint64_t>, CheckpointSummary> present;
  std::vector<CheckpointSummary> summaries;
  for (const CheckpointName& name : *committed) {
    const std::pair number(name.snapshot.term(), name.snapshot.counter());
    const auto known = summaries_.find(number);
    auto summary =
        known != summaries_.end() ? known->second : SummaryOf(root, name);
    if (!summary.ok()) {
      Log(LogLevel::kWarning, "no checkpoint is retired",
          {{"reason", summary.status().message()}});
      return {};
    }
    if (present.emplace(number, *summary).second) {
      summaries.push_back(*std::move(summary));
    }
  }
  summaries_ = std::move(present);
  return ToRetire(retention, std::move(summaries));
}

absl::StatusOr<v1::DeleteCheckpointsResult> CheckpointDirectory::Delete(
    const v1::DeleteCheckpoints& request) {
  v1::DeleteCheckpointsResult result;
  ASSIGN_OR_RETURN(const std::string root, AbsolutePath(root_));
  const absl::Status held = held_.Check();
  if (!held_.held() && absl::IsNotFound(held)) return result;
  RETURN_IF_ERROR(held);
  ASSIGN_OR_RETURN(const auto committed, ListCheckpointNames(root));
  for (const v1::SnapshotNumber& retired : request.snapshots()) {
    absl::Status deleted;
    for (const CheckpointName& old : committed) {
      if (old.snapshot != retired) continue;
      // Invisible at one instant; a crash from here on leaves only trash.
      const std::string trash = absl::StrCat(root, "/", kTrash, old.name);
      deleted.Update(RenamePath(absl::StrCat(root, "/", old.name), trash));
      if (deleted.ok()) deleted.Update(RemoveTree(trash));
    }
    if (deleted.ok()) {
      *result.add_deleted() = retired;
    } else {
      Log(LogLevel::kWarning, "retired checkpoint stays",
          {{"reason", deleted.message()}});
    }
  }
  return result;
}

absl::Status CheckpointDirectory::CheckRun(
    const std::string& root, const std::vector<CheckpointName>& committed,
    const std::string& run_id) {
  for (const CheckpointName& name : committed) {
    if (run_id.empty() || own_.contains(name.name)) continue;
    const std::string path = absl::StrCat(root, "/", name.name);
    const auto manifest = ReadManifest(path);
    if (!manifest.ok()) continue;
    if (manifest->run_id().empty() || manifest->run_id() == run_id) {
      own_.insert(name.name);
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "checkpoint '", path, "' is of run ", manifest->run_id(),
        ", and this is run ", run_id,
        ": go on with that run in its own run_dir (--resume), or give this one "
        "another checkpoint.directory; warm_start.path begins with its "
        "weights"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::FindCheckpointResult> CheckpointDirectory::Find(
    const v1::FindCheckpoint& request) {
  v1::FindCheckpointResult result;
  ASSIGN_OR_RETURN(const std::string root, AbsolutePath(root_));
  RETURN_IF_ERROR(CheckIsNoneItself(root));
  RETURN_IF_ERROR(CheckIsNoneItself(DirectoryOf(root)));
  const absl::Status held = held_.Check();
  if (!held_.held() && absl::IsNotFound(held)) return result;
  if (held_.lost()) return absl::UnavailableError(held.message());
  RETURN_IF_ERROR(held);
  ASSIGN_OR_RETURN(const auto committed, ListCheckpointNames(root));
  RETURN_IF_ERROR(CheckRun(root, committed, request.run_id()));
  absl::Status newest_fault;
  bool may_pass = false;
  for (const CheckpointName& candidate : committed) {
    const std::string path = absl::StrCat(root, "/", candidate.name);
    if (IsRetired(candidate.snapshot, request)) {
      Log(LogLevel::kInfo, "checkpoint passed over",
          {{"path", path}, {"reason", "it is retired"}});
      continue;
    }
    auto manifest = ReadValidManifest(path, candidate.snapshot, request);
    if (manifest.ok()) {
      RETURN_IF_ERROR(CheckCanGoOn(path, *manifest));
      result.set_path(path);
      *result.mutable_manifest() = *std::move(manifest);
      return result;
    }
    Log(LogLevel::kWarning, "checkpoint passed over",
        {{"path", path}, {"reason", manifest.status().message()}});
    if (newest_fault.ok()) newest_fault = manifest.status();
    may_pass |= MayPass(manifest.status());
  }
  if (newest_fault.ok()) return result;
  return absl::Status(
      may_pass ? absl::StatusCode::kUnavailable : absl::StatusCode::kDataLoss,
      absl::StrCat(
          "no checkpoint in '", root, "' verifies; of the newest: ",
          newest_fault.message(), " (`paramd checkpoint verify ", root,
          "` names everything that is wrong: repair it, or move the directory "
          "away to begin the run anew)"));
}

}  // namespace paramd
