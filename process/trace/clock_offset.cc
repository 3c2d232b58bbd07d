#include "process/trace/clock_offset.h"

namespace paramd {

void ClockOffset::Add(Time sent, Time received, int64_t there_ns) {
  if (received < sent) return;
  ++calls_;
  const absl::Duration round_trip = received - sent;
  if (round_trip >= round_trip_) return;
  round_trip_ = round_trip;
  const int64_t middle_ns =
      sent.nanoseconds() + (received.nanoseconds() - sent.nanoseconds()) / 2;
  offset_ns_ = there_ns - middle_ns;
}

}  // namespace paramd
