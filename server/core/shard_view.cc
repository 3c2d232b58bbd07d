#include "server/core/shard_view.h"

#include "proto/member_name.h"
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

bool ShardView::IsBackupIn(const v1::Configuration& in) const {
  const v1::ServerMember* const self = FindSelf(in);
  return self != nullptr && self->has_backup() &&
         self->backup().peer() == options.peer_or_index();
}

uint64_t ShardView::MeantIn(const v1::Configuration& in) const {
  const v1::ServerMember* const self = FindSelf(in);
  if (self == nullptr) return 0;
  if (PeerOf(*self) == options.peer_or_index()) return self->incarnation();
  return IsBackupIn(in) ? self->backup().incarnation() : 0;
}

absl::Status ShardView::NotReady(absl::string_view entity,
                                 absl::string_view sentence) const {
  return RefuseForNow(v1::Refusal::NOT_READY, entity, options.retry_after,
                      sentence);
}

}  // namespace paramd
