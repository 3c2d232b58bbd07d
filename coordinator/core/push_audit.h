#ifndef PARAMD_COORDINATOR_CORE_PUSH_AUDIT_H_
#define PARAMD_COORDINATOR_CORE_PUSH_AUDIT_H_

#include <cstdint>
#include <string>

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Compares two counts that a checkpoint has of each block, which the servers
// keep apart: the pushes that were applied to its values, and those that the
// records beside them say are in it. More applications than pushes means that
// one was applied twice; fewer, that one is gone and nobody reported it.
//
// In sync mode a block counts steps, and all of them are the checkpoint's. With
// a `base` only what came since that checkpoint is compared, in the slices of
// both: the counts of what it has may be of another kind.
//
// A slice that names the most partial pushes it can is passed over: it may have
// had more.
//
// A value: made whole, then immutable.
class PushAudit {
 public:
  PushAudit() = default;
  // `base`, if not null: an earlier checkpoint of this mode.
  PushAudit(const v1::Manifest& manifest, bool sync,
            const v1::Manifest* base = nullptr);

  static bool HaveSameSlices(const v1::Manifest& a, const v1::Manifest& b);

  // Applications that some block has beyond its pushes, and pushes that some
  // block has no application of: the most of any block.
  uint64_t doubled() const { return doubled_; }
  uint64_t missing() const { return missing_; }
  // Which block is the first that is wrong, and how. Empty: none is.
  const std::string& sentence() const { return sentence_; }

  // How many partial pushes a slice names at most.
  static constexpr int kMostPartial = 1024;

 private:
  void Compare(const v1::SavedSlice& slice, const std::string& file,
               uint64_t block, uint64_t applied, uint64_t wanted);

  uint64_t doubled_ = 0;
  uint64_t missing_ = 0;
  std::string sentence_;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_PUSH_AUDIT_H_
