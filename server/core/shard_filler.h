#ifndef PARAMD_SERVER_CORE_SHARD_FILLER_H_
#define PARAMD_SERVER_CORE_SHARD_FILLER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/random.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/core/shard_content.h"
#include "tensor/buffer.h"

namespace paramd {

// Gives the slices of a server their first content, a bounded piece of work at
// a time: either initial values, drawn by a counter-based generator keyed by
// (seed, variable, element) and therefore the same for any number of servers,
// in part out of something that was trained before; or what a checkpoint holds.
//
// Not thread-safe: belongs to a Shard. The content outlives it.
class ShardFiller {
 public:
  // `lives` yields the random lives of the slices, in both.
  static std::unique_ptr<ShardFiller> FromInitialValues(ShardContent* content,
                                                        uint64_t seed,
                                                        RandomStream* lives);

  // Initial values, of which those that were found are in the payload.
  // kDataLoss if it does not have the slices or the bytes that were asked for.
  static absl::StatusOr<std::unique_ptr<ShardFiller>> FromWarmStart(
      ShardContent* content, uint64_t seed,
      const v1::ReadWarmStartResult& result, BufferChain payload,
      RandomStream* lives);

  // Records of pushes are taken over only if the checkpoint is of `run_id`:
  // the sessions of another run mean nothing here. kDataLoss if the checkpoint
  // does not have the slices or the bytes that were asked for.
  static absl::StatusOr<std::unique_ptr<ShardFiller>> FromCheckpoint(
      ShardContent* content, const v1::ReadSlicesResult& result,
      BufferChain payload, absl::string_view run_id, RandomStream* lives);

  // Fills about a block's worth; true if everything is filled now.
  bool Step();

  // What to ask of a checkpoint for this content.
  static std::unique_ptr<v1::ReadSlices> Wanted(const ShardContent& content,
                                                const std::string& directory);
  // The same of what it is to begin with.
  static std::unique_ptr<v1::ReadWarmStart> Wanted(
      const ShardContent& content, const v1::WarmStartConfig& warm_start);

 private:
  ShardFiller(ShardContent* content, RandomStream* lives)
      : content_(content), lives_(lives), reader_(payload_) {}

  void BeginSlice(Slice* slice);
  void RestoreCounts(const v1::ReadSlicesResult::Got& got, Slice* slice);
  // Fills part `part` of a block: 0 is its values, n its slot n - 1.
  void FillPart(const Slice& slice, int block, size_t part,
                absl::Span<float> out);
  void FillInitial(const Slice& slice, uint64_t first, absl::Span<float> out);

  ShardContent* const content_;
  RandomStream* const lives_;
  bool restoring_ = false;
  uint64_t seed_ = 0;
  // By slice, if not restoring: its values are in the payload. Empty: none are.
  std::vector<bool> found_;
  bool take_records_ = false;
  v1::ReadSlicesResult result_;
  BufferChain payload_;
  ChainReader reader_;
  // What is filled next.
  size_t slice_ = 0;
  size_t part_ = 0;
  int block_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_SHARD_FILLER_H_
