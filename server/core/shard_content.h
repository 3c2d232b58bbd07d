#ifndef PARAMD_SERVER_CORE_SHARD_CONTENT_H_
#define PARAMD_SERVER_CORE_SHARD_CONTENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "server/core/content_pruning.h"
#include "server/core/content_pulls.h"
#include "server/core/memory_budget.h"
#include "server/core/optimizer.h"
#include "server/core/push_decision.h"
#include "server/core/quarantine_count.h"
#include "server/core/row_numbers.h"
#include "server/core/slice.h"
#include "server/core/snapshot_fork.h"
#include "server/core/spare_buffers.h"
#include "server/core/staleness_count.h"
#include "server/core/whole_files.h"
#include "tensor/buffer.h"
#include "tensor/number_format.h"
#include "tensor/number_reader.h"

namespace paramd {

// What a server holds under one layout: its slices and how gradients change
// them. Pulls read it, pushes write it; who may do either, and when, is the
// Shard's business.
//
// Invariant: a refused chunk changed nothing.
//
// Not thread-safe: belongs to a Shard.
class ShardContent {
 public:
  struct Options {
    uint32_t server = 0;
    // Of a pull's answer, head and payload together.
    size_t max_reply_bytes = 0;
    // See GradientRms; 0: nothing is a spike, and nothing is kept.
    double spike_factor = 0;
    // What its memory is counted in, and how long after a refusal for it asking
    // again makes sense. Null: in nothing. Outlives the content.
    MemoryBudget* memory = nullptr;
    // Where rows lie that need not lie in memory. Null: nowhere, and variables
    // with such rows are refused. Outlives the content.
    DiskMemory* disk = nullptr;
    absl::Duration retry_after = absl::Milliseconds(20);
    // What gradients are applied with.
    const OptimizerKernels* kernels = &MachineKernels();
  };

  // Slices without blocks, for a ShardFiller to fill. Refused as INVALID, by
  // naming variable or slice, if the configuration makes no sense, or with what
  // needs how much memory if it does not fit.
  static absl::StatusOr<std::unique_ptr<ShardContent>> Create(
      const v1::Configuration& configuration, const Options& options);

  // Those of this server, in the order of the layout.
  const std::vector<Slice*>& owned() const { return owned_; }
  // The one of this place in the layout; null: it is no slice of this server.
  const Slice* Owned(uint32_t place) const {
    return place < slices_.size() ? slices_[place].get() : nullptr;
  }
  // The one that has the block which a call names, and counts that. Refused as
  // WRONG_OWNER or INVALID.
  absl::StatusOr<Slice*> Find(uint32_t slice, uint32_t block) const;
  // Of all values, slots and counts of steps: equal contents have equal ones.
  uint32_t Checksum() const;
  const Optimizer& optimizer() const { return optimizer_; }
  // What lies beside values of some variable of the layout.
  const std::vector<Slot>& all_slots() const { return all_slots_; }
  // Values and slots.
  uint64_t bytes() const { return bytes_; }

  // Over how many applications a schedule falls from now on.
  void SetDecaySteps(uint64_t steps) { optimizer_.SetDecaySteps(steps); }
  // As Optimizer::SetRateScale.
  void SetRateScale(double scale) { optimizer_.SetRateScale(scale); }

  // As ContentPulls::Pull. REQUIRES: filled.
  absl::Status Pull(const v1::PullRequest& request, const BufferChain& names,
                    v1::PullReply* reply, BufferChain* payload) {
    return pulls_.Pull(request, names, reply, payload);
  }

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

  // What of it becomes zero where ApplySum applies.
  ContentPruning& pruning() { return pruning_; }

  // Whether there is room for `needed()` more bytes, as MakeRoom makes it.
  bool HasRoom(const std::function<uint64_t()>& needed);
  // Makes room for `needed()` more bytes, which it asks again after dropping
  // recycled memory and packed blocks. Refused as OVER_LIMIT, for now, if they
  // do not fit even then; `what` wants them.
  absl::Status MakeRoom(absl::string_view what,
                        const std::function<uint64_t()>& needed);
  MemoryBudget* memory() { return options_.memory; }
  // Where memory of blocks, and of what is made of them, comes from.
  SpareBuffers& spare() { return spare_; }
  const SpareBuffers& spare() const { return spare_; }

  // What a snapshot holds of it.
  SnapshotFork& fork() { return fork_; }
  const SnapshotFork& fork() const { return fork_; }

  // What files of it are known to hold.
  WholeFiles& whole_files() { return whole_files_; }
  const WholeFiles& whole_files() const { return whole_files_; }

  // What is to be logged since the last call.
  std::vector<std::string> TakeNotes();

  struct Counts {
    uint64_t blocks_applied = 0;
    uint64_t blocks_repeated = 0;
    uint64_t blocks_refused = 0;
    uint64_t blocks_quarantined = 0;  // Of those refused.
  };
  const Counts& counts() const { return counts_; }
  // That were answered.
  uint64_t pulls() const { return pulls_.count(); }
  // Of the blocks applied whose sender said what they were computed on.
  const StalenessCount& staleness() const { return staleness_; }
  // Fills in what gradients are like here, for people.
  void Describe(v1::ConfigureReply* reply) const;

 private:
  ShardContent(const Options& options, Optimizer optimizer);

  absl::Status AddSlices(const v1::Layout& layout, uint64_t seed);
  // What lasts, summed up, must fit.
  absl::Status CheckMemory(const v1::Configuration& configuration) const;
  absl::Status CheckDisk() const;
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

  const Options options_;
  SpareBuffers spare_;
  Optimizer optimizer_;
  std::vector<Slot> all_slots_;
  // By place in the layout; null if it belongs to another server.
  std::vector<std::unique_ptr<Slice>> slices_;
  std::vector<uint32_t> servers_;
  std::vector<Slice*> owned_;
  ContentPruning pruning_{optimizer_, owned_};
  uint64_t bytes_ = 0;
  SnapshotFork fork_;
  WholeFiles whole_files_;
  RowIdList ids_;  // Of the call at hand.
  ContentPulls pulls_{this, options_.max_reply_bytes, options_.disk};
  Counts counts_;
  StalenessCount staleness_;
  QuarantineCount quarantine_;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_CONTENT_H_
