#ifndef PARAMD_SERVER_CORE_SHARD_TURN_H_
#define PARAMD_SERVER_CORE_SHARD_TURN_H_

#include <utility>

#include "absl/status/status.h"

#include "base/time.h"
#include "proto/refusal.h"
#include "server/core/shard_view.h"
#include "tensor/core.h"

namespace paramd {

// What a shard lends its parts for one event: the time, the way out, and what
// they work on.
//
// Not thread-safe: lives for one call of the core.
class ShardTurn {
 public:
  // `next_io` is the number of the next work, of all parts.
  ShardTurn(Time now, Outbox* out, const ShardView& view, ShardData* data,
            IoId* next_io)
      : now(now), out(out), data(*data), view_(view), next_io_(*next_io) {}

  const Time now;
  Outbox* const out;
  ShardData& data;

  // Refuses, with what every refusal of a server says: term and version.
  void Refuse(CallId call, const absl::Status& status) {
    v1::Refusal refusal = RefusalOf(status);
    refusal.set_term(view_.term);
    *refusal.mutable_version() = view_.configuration.version();
    out->Refuse(call, paramd::Refuse(refusal, status.message()));
  }

  // The number under which work starts next.
  IoId next_io() const { return next_io_; }
  IoId TakeIo() { return next_io_++; }
  // Work outside the cores, under the number that is returned.
  IoId StartIo(Outbox::Head head, BufferChain payload) {
    const IoId io = TakeIo();
    out->StartIo(io, std::move(head), std::move(payload));
    return io;
  }

 private:
  const ShardView& view_;
  IoId& next_io_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_TURN_H_
