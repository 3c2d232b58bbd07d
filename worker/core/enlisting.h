#ifndef PARAMD_WORKER_CORE_ENLISTING_H_
#define PARAMD_WORKER_CORE_ENLISTING_H_

#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/control.pb.h"
#include "tensor/core.h"

namespace paramd {

// Asks the coordinator for what a worker needs that no list names, and exits:
// with OK when it has that, or the job has finished; with UNAVAILABLE, naming
// what it waited for, when `patience` is over; with INVALID_ARGUMENT and the
// sentence of whoever refuses for good; and as the job has ended, if it has.
//
// Invariant: one request is under way at a time.
//
// Not thread-safe: a core.
class Enlisting : public Core {
 public:
  Enlisting(v1::EnlistRequest request, absl::Duration patience)
      : request_(std::move(request)), patience_(patience) {}

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override { return next_; }
  std::string overdue(Time /*now*/) const override { return why_; }

  // Unset: it has none, or not yet.
  const absl::optional<v1::EnlistReply>& reply() const { return reply_; }

 private:
  void Ask(Outbox* out);
  void OnRefused(const absl::Status& status, Time now, Outbox* out);

  const v1::EnlistRequest request_;
  const absl::Duration patience_;
  Time until_;
  Time next_ = Time::Never();  // When it asks again.
  CallId call_ = 0;            // Of the newest request.
  std::string why_;  // Why it has nothing yet; empty: nobody has said.
  absl::optional<v1::EnlistReply> reply_;
};

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_ENLISTING_H_
