#ifndef PARAMD_NET_OUTSIDE_WORK_H_
#define PARAMD_NET_OUTSIDE_WORK_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "google/protobuf/descriptor.h"

#include "net/mailbox.h"
#include "net/runtime.h"
#include "tensor/core.h"

namespace paramd {

// The work that cores have done outside of them: hands each to the handler of
// its type and brings back what came of it.
//
// Invariant: a work that is begun ends exactly once.
//
// Not thread-safe: lives on the loop thread; only the IoDone of a work may be
// called elsewhere, and comes back through the mailbox, which is closed before
// this goes.
class OutsideWork {
 public:
  // Takes what came of a work of `core`. Called on the loop thread, inside of
  // Begin too.
  using Ended = std::function<void(PeerId core, IoResult result)>;

  OutsideWork(std::shared_ptr<Mailbox> mailbox, Ended ended)
      : mailbox_(std::move(mailbox)), ended_(std::move(ended)) {}

  // As Runtime::HandleIo.
  void Handle(const google::protobuf::Descriptor* type,
              Runtime::IoHandler handler) {
    handlers_[type] = std::move(handler);
  }
  // It ends with UNIMPLEMENTED if there is no handler, with RESOURCE_EXHAUSTED
  // if too many are open. REQUIRES: no open work of the core has its id.
  void Begin(PeerId core, Outbox::IoItem item);

 private:
  void Complete(PeerId core, IoResult result);

  const std::shared_ptr<Mailbox> mailbox_;
  const Ended ended_;
  absl::flat_hash_map<const google::protobuf::Descriptor*, Runtime::IoHandler>
      handlers_;
  absl::flat_hash_set<std::pair<PeerId, IoId>> open_;  // Bound: 4,096.
};

}  // namespace paramd

#endif  // PARAMD_NET_OUTSIDE_WORK_H_
