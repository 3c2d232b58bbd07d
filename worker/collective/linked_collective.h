#ifndef PARAMD_WORKER_COLLECTIVE_LINKED_COLLECTIVE_H_
#define PARAMD_WORKER_COLLECTIVE_LINKED_COLLECTIVE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "compute/device/device_ring.h"
#include "worker/collective/collective.h"

namespace paramd {

// A collective of members that are apart: each has an end of a link to each
// other one, and somebody tells them where the others' ends are.
class LinkedCollective : public Collective {
 public:
  // Where the own ends are, by the rank of the other one; that of the own rank
  // is empty.
  virtual const std::vector<std::string>& links() const = 0;

  // Links all members: `links` are what each has, by rank. Called once, before
  // anything else but Abort. UNAVAILABLE if one can't be reached, or after
  // Abort.
  virtual absl::Status Connect(
      const std::vector<std::vector<std::string>>& links) = 0;

  // By which devices sum what lies in their memory, in the order of Sum and in
  // place of it; its end is this one's. Null: they don't. After Connect.
  virtual std::shared_ptr<DeviceRing> ring() const { return nullptr; }
};

// Makes the end of member `rank` of `size`.
using MakeLinked =
    std::function<absl::StatusOr<std::unique_ptr<LinkedCollective>>(
        size_t rank, size_t size)>;

}  // namespace paramd

#endif  // PARAMD_WORKER_COLLECTIVE_LINKED_COLLECTIVE_H_
