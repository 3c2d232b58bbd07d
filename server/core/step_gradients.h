#ifndef PARAMD_SERVER_CORE_STEP_GRADIENTS_H_
#define PARAMD_SERVER_CORE_STEP_GRADIENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "server/core/gradient_sum.h"
#include "server/core/shard_content.h"

namespace paramd {

// The contributions to one step of sync mode, as far as they are here: summed
// beside the blocks, or kept by reference.
//
// Without backup workers a gradient is added as soon as those of all earlier
// contributors are; what comes before its turn is kept, up to `park_bytes`.
// With them nothing is added before it is decided who belongs to the step.
//
// Invariants: contributions are summed in the order of the contributors,
// whatever the order of arrival. No block changes but by Apply.
//
// Not thread-safe: belongs to a SyncStep; the content outlives it.
class StepGradients {
 public:
  struct Options {
    uint64_t park_bytes = 256 << 20;
    absl::Duration retry_after = absl::Milliseconds(20);
  };

  StepGradients(const Options& options, ShardContent* content);

  // ---- who contributes

  // OK if the parked bytes can hold what these contribute, else INVALID.
  absl::Status CheckFits(int workers, uint32_t backup_workers) const;
  // These contribute from now on; what was here is dropped.
  void Begin(const v1::Contributors& contributors, uint32_t backup_workers);
  // The sessions of workers, for people.
  void NoteSessions(const v1::Configuration& configuration);
  // Zero before Begin.
  const v1::ContributorsVersion& contributors() const { return contributors_; }
  // In the order of summation.
  const std::vector<uint32_t>& workers() const { return workers_; }
  uint32_t backup_workers() const { return backup_workers_; }

  // ---- what they contribute

  // INVALID if this worker is no contributor.
  absl::Status CheckContributor(uint32_t worker) const;
  // Takes a chunk of a contribution, whose blocks are HELD then. Refused, with
  // no gradient taken: NOT_READY or INVALID if another contribution of the
  // worker is here; RETRY, naming whom it waits for, or OVER_LIMIT, if there is
  // no room for it. REQUIRES: CheckContributor lets it pass.
  absl::Status Add(const v1::PushRequest& request,
                   const std::vector<PushDecision>& decisions,
                   const BufferChain& payload, v1::PushReply* reply);
  // Whose contributions are wholly here.
  std::vector<uint32_t> Complete() const;
  // Whether the session of the contribution may still push. REQUIRES: it is
  // here.
  bool IsAdmitted(uint32_t worker) const;
  // Of those contributions; 0 where there is no block to apply them to.
  uint64_t ExamplesOf(const std::vector<uint32_t>& workers) const;
  // Who is missing in step `step`, for people.
  std::string WaitingFor(uint64_t step) const;

  // ---- what becomes of them

  size_t blocks() const { return blocks_.size(); }
  // That its gradient is of.
  size_t ElementsOf(size_t block) const;
  // Adds what these workers contributed to the block, times `scale`, and
  // records their pushes as in. OVER_LIMIT, with nothing changed, if there is
  // no memory now.
  absl::Status Apply(size_t block, const std::vector<uint32_t>& workers,
                     float scale, uint64_t step);
  // The step is over.
  void Drop();
  // Bytes of gradients that are kept.
  uint64_t parked_bytes() const { return parked_bytes_; }
  // Blocks of contributions that were taken, of all steps.
  uint64_t taken_blocks() const { return taken_blocks_; }
  // Nothing of a contribution is here.
  bool empty() const { return contributions_.empty(); }

 private:
  struct BlockState {
    Slice* slice = nullptr;
    int block = 0;
    GradientSum sum;
    size_t next = 0;  // Place in the order of what is added next.
  };
  struct Contribution {
    PushId push;
    uint64_t examples = 0;
    size_t missing = 0;                 // Blocks.
    std::vector<bool> in;               // By block.
    std::vector<BufferChain> gradient;  // By block; empty if it is summed.
  };

  // A block of a contribution that is not here yet, and its gradient's bytes.
  struct Missing {
    size_t block;
    uint64_t bytes;
  };

  // The contribution of the worker to this step; a new one if there is none.
  absl::StatusOr<Contribution*> Find(const v1::PushRequest& request);
  absl::Status CheckRoom(const Contribution& contribution, uint64_t step,
                         const std::vector<Missing>& blocks) const;
  // Memory for those blocks of a contribution. Refused as OVER_LIMIT, for now.
  absl::Status MakeRoom(const Contribution& contribution, uint64_t step,
                        const std::vector<Missing>& blocks);
  // Whether the worker's gradient would be added at once.
  bool IsNext(const BlockState& block, uint32_t worker) const;
  void AddInOrder(size_t block);
  // What it takes of the budget once it has memory of its own; 0 of rows.
  static uint64_t BytesOfSum(const BlockState& block) {
    return block.slice->sparse() ? 0
                                 : SpareBuffers::BudgetBytes(block.sum.size());
  }
  void AddTo(BlockState* block, BufferChain gradient);
  void ClearSum(BlockState* block);
  void CountKept();
  uint64_t BytesToApply(const BlockState& block, float scale) const;
  size_t IndexOf(const PushDecision& decision) const;
  bool eager() const { return backup_workers_ == 0; }

  const Options options_;
  ShardContent& content_;
  SpareBuffers& spare_;  // The content's.
  v1::ContributorsVersion contributors_;
  std::vector<uint32_t> workers_;
  uint32_t backup_workers_ = 0;
  std::map<uint32_t, v1::SessionId> sessions_;  // By worker, for people.
  std::vector<BlockState> blocks_;
  absl::flat_hash_map<const Slice*, size_t> first_block_;
  uint64_t shard_bytes_ = 0;  // Of one contribution.
  // What sums take of the budget: of all blocks but those of rows, and of one.
  uint64_t shard_sum_bytes_ = 0;
  uint64_t largest_sum_bytes_ = 0;
  std::map<uint32_t, Contribution> contributions_;  // Bound: workers_.
  uint64_t parked_bytes_ = 0;
  uint64_t taken_blocks_ = 0;
  // What all sums but those of rows take of the budget, or would in memory of
  // their own; and the bytes of those that are one gradient, which was
  // received.
  uint64_t summed_bytes_ = 0;
  uint64_t borrowed_bytes_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_STEP_GRADIENTS_H_
