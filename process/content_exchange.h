#ifndef PARAMD_PROCESS_CONTENT_EXCHANGE_H_
#define PARAMD_PROCESS_CONTENT_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/clock.h"
#include "base/time.h"
#include "config/job_config.h"
#include "net/process_calls.h"
#include "net/runtime.h"
#include "net/wire_message.h"
#include "proto/paramd/v1/membership.pb.h"

namespace paramd {

// What one worker of strategy "multi_worker_mirrored" has, for one that has
// nothing: its configuration log, and a checkpoint of the instant at which it
// stands, which is written for that unless the newest one is of this instant.
// One that can't be written is tried again after kPause.
//
// Not thread-safe: on the loop thread.
class ContentSource {
 public:
  static constexpr absl::Duration kPause = absl::Seconds(1);

  // `now` tells the time.
  explicit ContentSource(const v1::JobConfig& job,
                         std::function<Time()> now = MonotonicNow)
      : job_(job), now_(std::move(now)) {}

  // REQUIRES: called before Read. Outlives this.
  void SetRuntime(Runtime* runtime) { runtime_ = runtime; }

  // `standing_in`: the round in which this worker's content does not change; 0:
  // none. FAILED_PRECONDITION if that is another one than is asked for,
  // NOT_FOUND if there is no such file.
  absl::StatusOr<ProcessAnswer> Read(const v1::ReadStateRequest& request,
                                     uint64_t standing_in);

 private:
  void Prepare();
  void OnCheckpoint(uint64_t round, const absl::Status& status,
                    const google::protobuf::Message* reply);
  absl::Status List(const std::string& checkpoint);

  const v1::JobConfig job_;
  const std::function<Time()> now_;
  Runtime* runtime_ = nullptr;
  uint64_t round_ = 0;  // The one that is prepared, or being so.
  bool is_asking_ = false;
  Time next_attempt_;          // None failed: any time.
  v1::SnapshotNumber wanted_;  // The checkpoint; zero: not known yet.
  std::map<std::string, std::string> files_;  // Path by name; empty: not yet.
};

// Asks the worker that has it, and waits; UNAVAILABLE: to be asked again.
using AskSource = std::function<absl::StatusOr<WireMessage>(
    const v1::ReadStateRequest& request)>;

// Takes over what the source has: its log, unless this run has one, and the
// checkpoint as the newest of this run, under a term of its own. `goes_on`:
// whether to go on trying; once it is false, ABORTED. Errors name the file;
// DATA_LOSS, and nothing is written, if one would lie in another directory.
// `nonce`: of this process.
absl::Status TakeContent(const v1::JobConfig& job, uint64_t nonce,
                         uint64_t round, const AskSource& source,
                         const std::function<bool()>& goes_on);

}  // namespace paramd

#endif  // PARAMD_PROCESS_CONTENT_EXCHANGE_H_
