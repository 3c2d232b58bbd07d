#include "tensor/message.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/arena.h"

namespace paramd {

std::string PeerName(PeerId peer) {
  switch (peer.kind) {
    case PeerId::Kind::kPs:
      return absl::StrCat("ps-", peer.index);
    case PeerId::Kind::kWorker:
      return peer == PeerId::AnyWorker() ? "worker"
                                         : absl::StrCat("worker-", peer.index);
    case PeerId::Kind::kCoordinator:
      return "coordinator";
    case PeerId::Kind::kStage:
      return absl::StrCat("stage-", peer.index);
    case PeerId::Kind::kOutside:
      return "outside";
  }
  return "outside";
}

void HeadDeleter::operator()(google::protobuf::Message* head) const {
  google::protobuf::Arena* const arena = head->GetArena();
  if (arena == nullptr) {
    delete head;
  } else {
    delete arena;
  }
}

Head MakeHeadLike(const google::protobuf::Message& prototype) {
  google::protobuf::ArenaOptions options;
  options.start_block_size = 1 << 10;
  options.max_block_size = 32 << 10;
  return Head(prototype.New(new google::protobuf::Arena(options)));
}

}  // namespace paramd
