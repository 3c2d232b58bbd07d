#ifndef PARAMD_NET_ANSWERS_UNDER_WAY_H_
#define PARAMD_NET_ANSWERS_UNDER_WAY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "absl/time/time.h"
#include "grpcpp/server_context.h"

#include "base/time.h"

namespace paramd {

// The answers that a server is sending: gRPC has each from when it is given it
// until it reports that the call is over. An answer that its caller does not
// read keeps memory and a place; its call is then cancelled, which ends it like
// any other.
//
// Bound: an answer that nobody reads is cut off after the time given to
// LimitUnread. If there are more than `most` such answers (4,096, or what
// MakeRoomFor says), the oldest is cut off after a second.
//
// Not thread-safe: lives on the loop thread.
class AnswersUnderWay {
 public:
  void LimitUnread(absl::Duration longest) { longest_ = longest; }
  void MakeRoomFor(size_t calls) { most_ = std::max(kLeast, calls); }

  // An answer to `call`, which stays valid until Ended; its number.
  uint64_t Begin(grpc::ServerContext* call, Time now);
  // So many bytes of it are memory of this process. REQUIRES: said once.
  void Pin(uint64_t answer, uint64_t bytes);
  // gRPC has done with it.
  void Ended(uint64_t answer);

  // Gives up the oldest that pins memory, if that is a second old.
  void CancelOldest(Time now);
  // Cuts those that nobody takes.
  void CutUnread(Time now);
  // When CutUnread will have something to do.
  Time next_deadline() const;

  uint64_t pinned_bytes() const { return pinned_bytes_; }
  size_t size() const { return answers_.size(); }

 private:
  static constexpr size_t kLeast = 4096;

  struct Answer {
    grpc::ServerContext* call = nullptr;
    Time since;
    uint64_t bytes = 0;
  };

  // With how long an answer that is not taken yet.
  absl::Duration Patience() const;

  absl::Duration longest_ = absl::Seconds(60);
  size_t most_ = kLeast;
  uint64_t next_ = 1;
  std::map<uint64_t, Answer> answers_;  // By number, hence by age.
  // Those below were cut, and are about to end: so many.
  uint64_t uncut_from_ = 1;
  size_t cut_left_ = 0;
  std::set<uint64_t> pinning_;  // And were not given up.
  uint64_t pinned_bytes_ = 0;
  // Since the process began; logged the 1st, 2nd, 4th, 8th … time.
  uint64_t given_up_ = 0;
  uint64_t cut_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_NET_ANSWERS_UNDER_WAY_H_
