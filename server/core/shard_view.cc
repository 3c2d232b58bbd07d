#include "server/core/shard_view.h"

#include "proto/refusal.h"

namespace paramd {

std::string ShardView::Name() const {
  return PeerName(PeerId::Ps(options.index));
}

const v1::ServerMember* ShardView::FindSelf(const v1::Configuration& in) const {
  for (const v1::ServerMember& member : in.servers()) {
    if (member.index() == options.index) return &member;
  }
  return nullptr;
}

absl::Status ShardView::NotReady(absl::string_view entity,
                                 absl::string_view sentence) const {
  return RefuseForNow(v1::Refusal::NOT_READY, entity, options.retry_after,
                      sentence);
}

}  // namespace paramd
