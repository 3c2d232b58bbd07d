#ifndef PARAMD_SERVER_CORE_SHARD_OPTIONS_H_
#define PARAMD_SERVER_CORE_SHARD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "server/core/optimizer_kernels.h"
#include "tensor/disk_memory.h"

namespace paramd {

// What a Shard is told by its process, once. What the job says comes with the
// configuration: see ServerSettings.
struct ShardOptions {
  // Which server this is, and which life of the process: random, not zero.
  uint32_t index = 0;
  uint64_t incarnation = 0;
  // Which program: a place of another one may not compute the same bits.
  std::string build;
  // Which of the server's places, where it has several: the number under which
  // it is called. Unset: its index.
  absl::optional<uint32_t> peer;
  uint32_t peer_or_index() const { return peer.value_or(index); }
  // How many places each ps has, which calls as one. 0: not known.
  uint32_t places_of_a_ps = 0;
  // Key of the random lives of blocks; never the same for two processes.
  uint64_t life_seed = 0;
  // Without a word from a coordinator for this long the process ends, to be
  // restarted: nobody would ever tell it the end. The first holds until one
  // has configured it.
  absl::Duration start_timeout = absl::Minutes(10);
  absl::Duration coordinator_patience = absl::Minutes(10);
  // After how long it is worth asking again while slices are being filled.
  absl::Duration retry_after = absl::Milliseconds(20);
  // Processor time of the calling thread since it began. Null: not known.
  std::function<absl::Duration()> processor_time;
  // Of all that a MemoryBudget counts; 0: no limit.
  uint64_t memory_limit_bytes = 0;
  // Where rows lie that need not lie in memory. Null: nowhere.
  std::shared_ptr<DiskMemory> disk;
  const OptimizerKernels* kernels = &MachineKernels();
  // Of a checkpoint that is restored, how much is read at once. Twice as much
  // is held, beside the content.
  uint64_t restore_window_bytes = 16 << 20;
  // Of a pull's answer.
  size_t max_reply_bytes = (4 << 20) + (64 << 10);
  // What an answer says of a file that was written; more is fetched.
  size_t max_description_bytes = 512 << 10;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_OPTIONS_H_
