#include "tensor/message.h"

#include "absl/strings/str_cat.h"

namespace paramd {

std::string PeerName(PeerId peer) {
  switch (peer.kind) {
    case PeerId::Kind::kPs: return absl::StrCat("ps-", peer.index);
    case PeerId::Kind::kWorker: return absl::StrCat("worker-", peer.index);
    case PeerId::Kind::kCoordinator: return "coordinator";
    case PeerId::Kind::kOutside: return "outside";
  }
  return "outside";
}

}  // namespace paramd
