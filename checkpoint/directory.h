#ifndef PARAMD_CHECKPOINT_DIRECTORY_H_
#define PARAMD_CHECKPOINT_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "checkpoint/file.h"
#include "checkpoint/held_directory.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Whether Prepare gives this name to a directory:
// ".tmp-000001-00000006-<nonce>".
bool IsPreparedName(absl::string_view name);

// Writes the manifest, its checksum and, if no file has a base, the index of
// the tensors of the files beside them, durably.
absl::Status WriteManifestFiles(const std::string& directory,
                                const v1::Manifest& manifest);

// The directory in which a run's checkpoints lie, as the chief works on it:
//
//   000001-00000005.step-9370/   committed: term, counter and step
//     manifest.json, manifest.crc32c, model.safetensors.index.json,
//     one safetensors file a server
//   .tmp-000001-00000006-<nonce>/   being written, invisible to readers
//   .trash-…/                       being deleted
//   run                             whose they are, see held_directory.h
//
// Invariant: what has a committed name was complete and durable before it got
// it; nothing else makes a checkpoint. Every step can be cut off by a crash:
// the leftovers are deleted by a later Prepare or Commit of a higher number,
// never by a lower one, so an old chief deletes nothing of a new one. It is the
// same directory for as long as this lives: where its path leads elsewhere,
// nothing is written, and everything fails with HeldDirectory's sentence.
//
// Thread safety: not thread-safe; several processes may have one directory.
class CheckpointDirectory {
 public:
  // `root` is made by the first Prepare. `nonce` is this process's own.
  CheckpointDirectory(std::string root, uint64_t nonce);

  // Makes the directory for a snapshot's files; the same call again answers the
  // same. An error names the directory that cannot be made or written; ABORTED
  // if a newer term is at work here, INVALID_ARGUMENT if there are another
  // run's checkpoints.
  absl::StatusOr<v1::PrepareCheckpointResult> Prepare(
      const v1::PrepareCheckpoint& request);

  // Reads the files back, writes the manifest (its format and, if empty,
  // `created` are filled in) and gives the directory its committed name; then
  // says which checkpoints need not stay. DATA_LOSS if a file is not what the
  // manifest says, ABORTED if a newer term is at work here or the snapshot is
  // committed already, INVALID_ARGUMENT if there are another run's checkpoints:
  // then nothing has changed. Where a manifest can't be read
  // now, or needs a newer reader, nothing is said to go; that is logged.
  absl::StatusOr<v1::CommitCheckpointResult> Commit(
      const v1::CommitCheckpoint& request);

  // Deletes checkpoints that the log has as retired, whoever retired them. The
  // result has those that are gone, also by somebody else. One that can't be
  // deleted is logged, not an error, and is named by a later Commit again.
  absl::StatusOr<v1::DeleteCheckpointsResult> Delete(
      const v1::DeleteCheckpoints& request);

  // The newest checkpoint that is not retired, not known as damaged, and whose
  // manifest, sizes and tensors are right; each that is passed over is logged
  // with the reason. Whether the numbers are what was written is for those to
  // find out who read them (RestoreReader). Without a manifest if there is none
  // at all; DATA_LOSS naming the newest's fault and what to do if there are
  // some and none is right, UNAVAILABLE if one of them could not be read for a
  // reason that may pass; INVALID_ARGUMENT naming both runs if one is another
  // run's, or if the newest, or what the directory is or lies in, is quantised.
  absl::StatusOr<v1::FindCheckpointResult> Find(
      const v1::FindCheckpoint& request);

  const HeldDirectory& held() const { return held_; }

 private:
  // ABORTED if something of a higher term lies in `names`.
  absl::Status CheckTerm(const std::vector<std::string>& names,
                         const v1::SnapshotNumber& snapshot) const;
  // INVALID_ARGUMENT if one of the checkpoints is not of run `run_id`, unless
  // that or the checkpoint's is empty. One that can't be read is of no run.
  absl::Status CheckRun(const std::string& root,
                        const std::vector<CheckpointName>& committed,
                        const std::string& run_id);
  // ABORTED if `snapshot` must not be committed into `root`.
  absl::Status CheckCommit(const std::string& root,
                           const v1::CommitCheckpoint& request) const;
  // Deletes what lower numbers than `snapshot` have left half-done.
  void DeleteLeftovers(const std::string& root,
                       const v1::SnapshotNumber& snapshot);
  // Of committed checkpoints, by what `retention` says.
  std::vector<v1::SnapshotNumber> ChooseToRetire(
      const std::string& root, const v1::Retention& retention);
  absl::StatusOr<CheckpointSummary> SummaryOf(const std::string& root,
                                              const CheckpointName& name) const;

  const std::string root_;
  const uint64_t nonce_;
  HeldDirectory held_;
  // By (term, counter), of those that are there: what is committed never
  // changes, and manifests are long.
  std::map<std::pair<uint64_t, uint64_t>, CheckpointSummary> summaries_;
  std::set<std::string> own_;  // Names of those known to be of the run.
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_DIRECTORY_H_
