#ifndef PARAMD_SERVER_CORE_SHARD_CONTENT_H_
#define PARAMD_SERVER_CORE_SHARD_CONTENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/configuration.pb.h"
#include "proto/paramd/v1/control.pb.h"
#include "server/core/content_pruning.h"
#include "server/core/content_pulls.h"
#include "server/core/content_pushes.h"
#include "server/core/memory_budget.h"
#include "server/core/optimizer.h"
#include "server/core/slice.h"
#include "server/core/snapshot_fork.h"
#include "server/core/spare_buffers.h"
#include "server/core/whole_files.h"
#include "tensor/disk_memory.h"

namespace paramd {

// What a server holds under one layout: its slices, and the memory for them.
// Pulls read it, pushes write it; who may do either, and when, is the Shard's
// business.
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

  ContentPulls& pulls() { return pulls_; }
  const ContentPulls& pulls() const { return pulls_; }
  ContentPushes& pushes() { return pushes_; }
  const ContentPushes& pushes() const { return pushes_; }
  // What of it becomes zero with a step.
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

  // Fills in what gradients are like here, for people.
  void Describe(v1::ConfigureReply* reply) const;

 private:
  ShardContent(const Options& options, Optimizer optimizer);

  absl::Status AddSlices(const v1::Layout& layout, uint64_t seed);
  // What lasts, summed up, must fit.
  absl::Status CheckMemory(const v1::Configuration& configuration) const;
  absl::Status CheckDisk() const;

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
  ContentPulls pulls_{this, options_.max_reply_bytes, options_.disk};
  ContentPushes pushes_{this, options_.spike_factor};
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_CONTENT_H_
