#ifndef PARAMD_SERVER_CORE_CONTENT_PUSHES_H_
#define PARAMD_SERVER_CORE_CONTENT_PUSHES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/data.pb.h"
#include "server/core/applied_pushes.h"
#include "server/core/optimizer.h"
#include "server/core/quarantine_count.h"
#include "server/core/row_numbers.h"
#include "server/core/slice.h"
#include "server/core/snapshot_fork.h"
#include "server/core/spare_buffers.h"
#include "server/core/staleness_count.h"
#include "tensor/buffer.h"
#include "tensor/number_format.h"
#include "tensor/number_reader.h"

namespace paramd {

class ShardContent;

// A block of a chunk, and what becomes of it.
struct PushDecision {
  Slice* slice;
  uint32_t place;  // Of the slice, in the layout.
  int block;
  AppliedPushes::Admission admission;
  size_t elements;         // Of its gradient.
  uint32_t rows = 0;       // Of a sparse variable: that the gradient is of.
  size_t first_id = 0;     // Of those rows.
  double mean_square = 0;  // Of its gradient, if spike_factor is set.
  // Version that the gradient was computed on; 0: not known.
  uint64_t read_life = 0;
  uint64_t read_counter = 0;

  // Of the names of its rows; 0 where all of the block is pushed.
  size_t id_bytes() const { return rows * slice->row_id_bytes(); }
  // Answers for this block.
  void Answer(v1::PushedBlock::Result result, v1::PushReply* reply) const;
};

// Of the names of all rows.
size_t IdBytes(const std::vector<PushDecision>& decisions);

// What a push is answered of a block that was admitted so.
v1::PushedBlock::Result ResultOf(AppliedPushes::Admission admission);

// How gradients change a content.
//
// Invariant: a refused chunk changed nothing.
//
// Not thread-safe: lives inside the content.
class ContentPushes {
 public:
  // `spike_factor`: see GradientRms; 0: nothing is a spike, and nothing is
  // kept.
  ContentPushes(ShardContent* content, double spike_factor);

  // Checks the whole chunk, then applies each block that is not in yet, and to
  // what an open snapshot holds of it if the push is before its cut. Refused
  // as WRONG_OWNER, FENCED, QUARANTINED or INVALID, or OVER_LIMIT where there
  // is no memory for the blocks that others read, in which case nothing
  // changed. REQUIRES: filled.
  absl::Status Push(const v1::PushRequest& request, const BufferChain& payload,
                    v1::PushReply* reply);

  // Checks the whole chunk as Push does, and what would become of each block;
  // changes nothing. Whole blocks come first, as in the request, and names of
  // rows before all numbers, as in the payload. A chunk of a push without
  // examples has blocks of 0 elements.
  absl::StatusOr<std::vector<PushDecision>> Check(
      const v1::PushRequest& request, const BufferChain& payload);
  // Applies what a step sums up to for one block; where rows are pushed, of so
  // many, whose numbers or keys come first. REQUIRES: it is finite and has the
  // size of the block, or of those rows.
  void ApplySum(Slice* slice, int block, uint32_t rows, ChainReader* gradient);

  // What is to be logged since the last call.
  std::vector<std::string> TakeNotes() { return quarantine_.TakeNotes(); }

  struct Counts {
    uint64_t blocks_applied = 0;
    uint64_t blocks_repeated = 0;
    uint64_t blocks_refused = 0;
    uint64_t blocks_quarantined = 0;  // Of those refused.
  };
  const Counts& counts() const { return counts_; }
  // Of the blocks applied whose sender said what they were computed on.
  const StalenessCount& staleness() const { return staleness_; }

 private:
  uint64_t BytesToApply(const v1::PushRequest& request,
                        const std::vector<PushDecision>& decisions) const;
  absl::StatusOr<std::vector<PushDecision>> CheckPush(
      const v1::PushRequest& request, const BufferChain& payload);
  absl::StatusOr<std::vector<PushDecision>> CheckBlocks(
      const v1::PushRequest& request, const PushId& push, bool empty) const;
  absl::StatusOr<PushDecision> CheckBlock(const v1::PushBlock& block,
                                          const PushId& push, bool empty) const;
  absl::StatusOr<PushDecision> CheckRows(const v1::PushRequest& request,
                                         int which, const PushId& push,
                                         bool empty) const;
  // Reads the names of rows and the gradients of the blocks and notes these'
  // mean squares. Refused as QUARANTINED.
  absl::Status CheckNumbers(const BufferChain& payload, NumberFormat format,
                            std::vector<PushDecision>* decisions);
  bool IsFinite(const NumberReader& gradient, PushDecision* decision) const;
  void Apply(const v1::PushRequest& request, const PushDecision& decision,
             ChainReader* gradient);
  // That the push is in, which has no examples: no block changes, nor the
  // number of steps that its optimizer counts. Answers for each.
  void Record(const v1::PushRequest& request,
              const std::vector<PushDecision>& decisions, v1::PushReply* reply);
  // How a gradient is applied to this copy of the block.
  ApplyOptions OptionsOf(const PushDecision& decision,
                         const Block& block) const;
  void ApplyTo(Block* block, const ApplyOptions& options,
               const PushDecision& decision, const RowIds& rows,
               const NumberReader& gradient, TableCounts* counts);
  // How many other pushes the block has taken since the read that the gradient
  // was computed on; nullopt if that is not known.
  absl::optional<uint64_t> StalenessOf(const PushDecision& decision,
                                       const Block& block) const;

  ShardContent& content_;
  const double spike_factor_;
  // The content's.
  const Optimizer& optimizer_;
  SpareBuffers& spare_;
  SnapshotFork& fork_;
  RowIdList ids_;  // Of the call at hand.
  Counts counts_;
  StalenessCount staleness_;
  QuarantineCount quarantine_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_CONTENT_PUSHES_H_
