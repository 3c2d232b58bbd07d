#ifndef PARAMD_COORDINATOR_CORE_PENDING_WORK_H_
#define PARAMD_COORDINATOR_CORE_PENDING_WORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/core.h"

namespace paramd {

class Turn;

// Called in the turn in which the work ends, which it may have failed.
using IoHandler = std::function<void(const IoResult&, Turn*)>;

// How a coordinator ends whose term another one has ended.
absl::Status TermLost(absl::string_view how);

// What the coordinator has under way: work outside the cores, entries of the
// log, and the numbers of its calls.
//
// Invariant: one entry is appended at a time, in the order of Append, because
// storage need not keep their order. After an entry that failed none is
// appended.
//
// Not thread-safe: lives inside the coordinator's core.
class PendingWork {
 public:
  PendingWork(std::string job_digest, uint64_t nonce_seed)
      : job_digest_(std::move(job_digest)), nonce_seed_(nonce_seed) {}

  // The log was read: entries go on from this number, with this said in them.
  void LogRead(uint64_t next_number, const std::string& run_id,
               const v1::JobRecord& job);
  const std::string& run_id() const { return run_id_; }
  const v1::JobRecord& job() const { return job_; }

  void StartIo(Outbox::Head head, BufferChain payload, IoHandler handler,
               Outbox* out);
  // kPatient: what follows may wait for other entries, so that everybody is
  // told of all of them at once.
  enum class Haste { kNone, kPatient, kPrompt };
  void Append(v1::LogEntry entry, Haste haste, IoHandler handler, Outbox* out);
  // What has ended: an entry of the log, or for kNone other work.
  struct Ended {
    IoHandler handler;  // Null: nobody waits for it.
    Haste haste = Haste::kNone;
  };
  // `owns_term`: that an append finds another one's entry says that the term is
  // lost, as `result` then does.
  Ended End(IoResult* result, bool owns_term, Outbox* out);

  // The next call's.
  CallId NewCall() { return next_call_++; }

 private:
  void AppendNext(Outbox* out);

  const std::string job_digest_;
  const uint64_t nonce_seed_;
  std::string run_id_;
  v1::JobRecord job_;
  uint64_t next_log_number_ = 1;
  struct Appended {
    IoId io = 0;
    v1::LogEntry entry;
    Haste haste = Haste::kPrompt;
  };
  // The first one's append is under way. Bound: a fence for each worker, a few
  // for each server, a few retired checkpoints and a few entries of the job.
  std::deque<Appended> appends_;
  CallId next_call_ = 1;
  IoId next_io_ = 1;
  std::map<IoId, IoHandler> handlers_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PENDING_WORK_H_
