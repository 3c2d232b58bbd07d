#ifndef PARAMD_COORDINATOR_CORE_RUN_RECORD_H_
#define PARAMD_COORDINATOR_CORE_RUN_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/config.pb.h"
#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// "10000 examples, not 60000; other labels (crc32c 0a1b2c3d, not 4e5f6071)": in
// what data differ from those that are meant; empty if in nothing, wherever
// they lie.
std::string DataDifference(const v1::DataSet& data, const v1::DataSet& meant);

// What the configuration log says of the job of a run, and whether the job that
// this process brings may go on with it: it must be the same job on the same
// data, except for settings that may change. Those that did are kept as a list.
//
// Not thread-safe. A value.
class RunRecord {
 public:
  // Of the chief: its job, checked and with every default filled in, the digest
  // of it, and what it has read to train on.
  RunRecord(const v1::JobConfig& job, const std::string& job_digest,
            const v1::DataSet& data);

  // The entries of the log, in their order.
  void Read(const v1::LogEntry& entry);

  // After the last entry. INVALID_ARGUMENT naming the run, and each setting
  // that makes another job with both values, or both directories of the data
  // and what differs.
  absl::Status Begin(const std::string& run_id);
  // The same of a checkpoint that is to be gone on from; and if fewer epochs
  // are wanted than it has begun.
  absl::Status CheckManifest(const std::string& path,
                             const v1::Manifest& manifest) const;

  // The run has ended, and more epochs are not wanted.
  bool finished() const;
  // Of all coordinators of the run, this one's last.
  const std::vector<v1::ChangedSetting>& changed() const { return changed_; }
  // "epochs is 20, was 5", of this coordinator alone; empty: nothing has.
  const std::string& changes() const { return changes_; }
  // By how many epochs the run has become longer.
  int64_t more_epochs() const;
  // Whether optimizer.decay_steps is another one.
  bool decay_changed() const;
  // Whether the run went on with another strategy until now.
  bool strategy_changed() const;
  // What the next entries and manifests say.
  const v1::JobRecord& ours() const { return ours_; }

 private:
  absl::Status CheckJob(const std::string& what, const v1::JobRecord& job,
                        const std::string& digest) const;

  const v1::JobConfig job_;
  const std::string job_digest_;
  v1::JobRecord ours_;
  absl::optional<v1::JobRecord> before_;  // The newest that was gone on with.
  std::string digest_before_;
  bool finished_ = false;
  std::vector<v1::ChangedSetting> changed_;
  std::string changes_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_RUN_RECORD_H_
