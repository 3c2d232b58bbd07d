#include "tests/sim/network.h"

#include <algorithm>

#include "absl/types/span.h"

namespace paramd {

int64_t DrawNanoseconds(absl::Duration shortest, absl::Duration longest,
                        RandomStream* random) {
  const int64_t span = absl::ToInt64Nanoseconds(longest - shortest);
  return absl::ToInt64Nanoseconds(shortest) +
         static_cast<int64_t>(random->Below(std::max<int64_t>(span, 0) + 1));
}

SimNetwork::SimNetwork(const Faults& faults, RandomStream* random)
    : faults_(faults), random_(*random) {}

bool SimNetwork::IsCutOff(const Sending& sending) const {
  for (const PeerId peer : {sending.from, sending.to}) {
    const auto found = cut_off_until_.find(peer);
    if (found != cut_off_until_.end() && sending.at < found->second) {
      return true;
    }
  }
  const auto link = cut_link_until_.find({sending.from, sending.to});
  return link != cut_link_until_.end() && sending.at < link->second;
}

int64_t SimNetwork::DrawArrival(const Sending& sending) {
  int64_t delay = DrawDelay();
  for (const PeerId peer : {sending.from, sending.to}) {
    const auto slow = slow_until_.find(peer);
    if (slow == slow_until_.end() || sending.at >= slow->second) continue;
    Count("slow", *sending.type);
    delay *= 100;
    break;
  }
  return sending.at + delay;
}

SimNetwork::Fate SimNetwork::OfRequest(const Sending& request,
                                       absl::Duration patience) {
  Fate fate;
  const bool cut_off = IsCutOff(request);
  if (cut_off || random_.Chance(faults_.lose_request)) {
    Count(cut_off ? "cut_off" : "lose_request", *request.type);
    if (random_.Chance(0.5)) {
      fate.fails_at = request.at + DrawNanoseconds(faults_.shortest_delay,
                                                   patience, &random_);
    }
    return fate;
  }
  if (random_.Chance(faults_.ghost)) {
    Count("ghost", *request.type);
    fate.fails_at = request.at + DrawDelay();
    fate.arrives_at.push_back(
        request.at +
        DrawNanoseconds(faults_.shortest_delay, faults_.ghost_delay, &random_));
    return fate;
  }
  fate.arrives_at.push_back(DrawArrival(request));
  if (random_.Chance(faults_.duplicate)) {
    Count("duplicate", *request.type);
    fate.arrives_at.push_back(DrawArrival(request));
  }
  return fate;
}

SimNetwork::Fate SimNetwork::OfReply(const Sending& reply) {
  Fate fate;
  const bool cut_off = IsCutOff(reply);
  if (cut_off || random_.Chance(faults_.lose_reply)) {
    Count(cut_off ? "cut_off_reply" : "lose_reply", *reply.type);
    if (random_.Chance(0.5)) fate.fails_at = reply.at + DrawDelay();
    return fate;
  }
  const bool twice = random_.Chance(faults_.second_reply);
  for (int copy = 0; copy < (twice ? 2 : 1); ++copy) {
    fate.arrives_at.push_back(DrawArrival(reply));
  }
  return fate;
}

bool SimNetwork::AdmitsSecondReply(const std::string& type) {
  if (faults_.second_reply == 0 || random_.Chance(0.5)) return false;
  Count("second_reply", type);
  return true;
}

int64_t SimNetwork::DrawDelay() {
  const bool straggles = random_.Chance(faults_.straggle);
  return DrawNanoseconds(
      faults_.shortest_delay,
      straggles ? faults_.straggler_delay : faults_.longest_delay, &random_);
}

BufferChain SimNetwork::Recut(const BufferChain& payload) {
  BufferChain pieces;
  for (const Buffer& buffer : payload) {
    absl::Span<const std::byte> rest = buffer.bytes();
    // Few cuts: a large payload is mostly contiguous, as on a real socket.
    for (uint64_t cuts = random_.Below(3); cuts > 0 && rest.size() > 1;
         --cuts) {
      const size_t length = 1 + random_.Below(rest.size() - 1);
      pieces.push_back(Buffer::Copy(rest.subspan(0, length)));
      rest.remove_prefix(length);
    }
    if (!rest.empty()) pieces.push_back(Buffer::Copy(rest));
  }
  return pieces;
}

}  // namespace paramd
