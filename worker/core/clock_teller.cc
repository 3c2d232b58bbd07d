#include "worker/core/clock_teller.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "proto/member_name.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {
namespace {

constexpr absl::Duration kShortestDeadline = absl::Milliseconds(100);

}  // namespace

void ClockTeller::BeginSession() {
  number_ = 0;
  last_no_input_.reset();
}

void ClockTeller::Configure(const v1::Configuration& configuration) {
  bounded_ = configuration.consistency().mode() == v1::Consistency::BOUNDED;
  servers_.clear();
  for (const v1::ServerMember& server : configuration.servers()) {
    servers_.push_back({server.incarnation(), PeerOf(server)});
  }
  if (!bounded_) last_no_input_.reset();
}

bool ClockTeller::IsDue(const State& state, Time now) const {
  return bounded_ && (last_no_input_ != state.no_input || now >= next_);
}

void ClockTeller::Tell(const State& state, const v1::Header& header, Time now,
                       CallId* next_call, Outbox* out) {
  ++number_;
  for (const Server& server : servers_) {
    auto told = std::make_unique<v1::TellClockRequest>();
    *told->mutable_header() = header;
    told->mutable_header()->set_server_incarnation(server.incarnation);
    told->set_clock(state.clock);
    told->set_no_input(state.no_input);
    told->set_number(number_);
    out->Send(PeerId::Ps(server.peer), (*next_call)++, std::move(told), {},
              std::max(every_, kShortestDeadline));
  }
  last_no_input_ = state.no_input;
  next_ = now + every_;
}

Time ClockTeller::next_tick() const { return bounded_ ? next_ : Time::Never(); }

}  // namespace paramd
