#ifndef PARAMD_NET_OPERATOR_CALLS_H_
#define PARAMD_NET_OPERATOR_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "base/mutex.h"
#include "net/caller.h"
#include "net/method_table.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Calls of operators, and calls by others that only operators may make: who
// called, from where, and what became of it. Each is a line in the log and is
// passed on to whoever records it; the newest are in the process's status.
//
// Of refused attempts only the 1st, 2nd, 4th, 8th … are recorded, because
// anybody may try.
//
// Thread-safe.
class OperatorCalls {
 public:
  static constexpr size_t kMost = 16;  // In the status.
  // Keeps one for good. Must not block.
  using Keep = std::function<void(const v1::OperatorCall&)>;

  explicit OperatorCalls(Keep keep = nullptr) : keep_(std::move(keep)) {}

  // Whether nobody but operators may call it.
  static bool AreFor(const Method& method);

  // Who calls, as it is told to whoever serves the call. `uids`: of those who
  // have the process's Unix socket open, "uid 1000".
  static v1::Origin OriginOf(const Caller& caller, const std::string& uids);

  // An operator has called. REQUIRES: AreFor(method). Its number; that of the
  // same call before, if that was refused for now; 0 if it waits for what a
  // call among the newest has begun: one with its nonce, or the last one that
  // asked for a checkpoint, if it names one.
  uint64_t Came(const v1::Origin& origin, const Method& method,
                const google::protobuf::Message& request)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Whoever serves it has refused it. Nothing if that is only for now, or of 0.
  void Refused(uint64_t number, const absl::Status& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Somebody who may not has called. REQUIRES: AreFor(method).
  void Attempted(const v1::Origin& origin, const Method& method,
                 const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);

  // Adds the newest, the newest last.
  void FillStatus(v1::StatusReply* status) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Asked {
    v1::OperatorCall call;
    uint64_t nonce = 0;            // Of one that is asked until it is done.
    bool refused_for_now = false;  // It is to be asked again.
  };

  // The call that this one repeats, or waits for; null: it is a new one.
  Asked* FindAsked(const v1::OperatorCall& call,
                   const google::protobuf::Message& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(Asked asked) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Keep keep_;  // May be null.
  mutable Mutex mutex_;
  uint64_t number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t attempts_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Asked> newest_ ABSL_GUARDED_BY(mutex_);
};

// Sets the field `origin` of a request that has one, whatever it says.
void SetOrigin(const v1::Origin& origin, google::protobuf::Message* request);

}  // namespace paramd

#endif  // PARAMD_NET_OPERATOR_CALLS_H_
