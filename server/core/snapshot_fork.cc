#include "server/core/snapshot_fork.h"

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

uint64_t BytesApart(const Buffer& frozen, const Buffer& live) {
  return frozen.bytes().data() == live.bytes().data() ? 0 : frozen.size();
}

}  // namespace

void SnapshotFork::Hear(const v1::SnapshotNumber& number) {
  if (!(number > number_)) return;
  number_ = number;
  state_ = State::kHeard;
  slices_.clear();
}

void SnapshotFork::End(const v1::SnapshotNumber& number) {
  Hear(number);
  if (number < number_ || state_ == State::kSealed) return;
  state_ = State::kSealed;
  slices_.clear();
}

SnapshotFork::FrozenSlice& SnapshotFork::Fork(const Slice& slice) {
  return slices_.try_emplace(&slice, slice).first->second;
}

SnapshotFork::Twin SnapshotFork::BeforeChange(const v1::SnapshotNumber& stamp,
                                              const Slice& slice, int block) {
  if (state_ == State::kSealed || IsZero(number_)) return {};
  if (stamp == number_) {
    state_ = State::kForked;
    absl::optional<Block>& frozen = Fork(slice).blocks[block];
    if (!frozen.has_value()) frozen = slice.block(block);
    return {};
  }
  const auto forked = slices_.find(&slice);
  if (forked == slices_.end()) return {};
  absl::optional<Block>& frozen = forked->second.blocks[block];
  return {frozen.has_value() ? &*frozen : nullptr, &forked->second.record};
}

AppliedPushes* SnapshotFork::BeforeRecord(const v1::SnapshotNumber& stamp,
                                          const Slice& slice) {
  if (state_ == State::kSealed || IsZero(number_)) return nullptr;
  if (stamp == number_) {
    state_ = State::kForked;
    Fork(slice);
    return nullptr;
  }
  const auto forked = slices_.find(&slice);
  return forked == slices_.end() ? nullptr : &forked->second.record;
}

// A push before the cut that comes late needs nothing where its block has been
// changed after the cut: the two copies are apart then. Where the push after
// the cut was of zeros and changed nothing, they are not, but there was room
// for that; it may be gone, and refusing would make the snapshot wait for
// memory that only its end frees.
uint64_t SnapshotFork::BytesToChange(const v1::SnapshotNumber& stamp,
                                     const Slice& slice, int block) const {
  const Block& live = slice.block(block);
  if (state_ == State::kSealed || IsZero(number_)) return live.read_bytes();
  const auto forked = slices_.find(&slice);
  const bool is_forked =
      forked != slices_.end() && forked->second.blocks[block].has_value();
  if (stamp == number_) return is_forked ? live.read_bytes() : live.bytes();
  if (!is_forked) return live.read_bytes();
  const Block& frozen = *forked->second.blocks[block];
  if (BytesApart(frozen.values(), live.values()) == 0) return 0;
  return frozen.read_bytes() + live.read_bytes();
}

bool SnapshotFork::MaySeal(const v1::SnapshotNumber& number) const {
  return number > number_ || (number == number_ && state_ != State::kSealed);
}

void SnapshotFork::Seal(const v1::SnapshotNumber& number,
                        const std::vector<Slice*>& slices) {
  CHECK(MaySeal(number), "a snapshot is sealed once, and none after a later");
  Hear(number);
  for (const Slice* const slice : slices) {
    FrozenSlice& frozen = Fork(*slice);
    for (int b = 0; b < slice->block_count(); ++b) {
      if (!frozen.blocks[b].has_value()) frozen.blocks[b] = slice->block(b);
    }
  }
  state_ = State::kSealed;
}

const Block& SnapshotFork::block(const Slice& slice, int block) const {
  return *slices_.at(&slice).blocks[block];
}

const AppliedPushes& SnapshotFork::record(const Slice& slice) const {
  return slices_.at(&slice).record;
}

void SnapshotFork::Release() {
  if (state_ == State::kSealed) slices_.clear();
}

uint64_t SnapshotFork::bytes() const {
  uint64_t bytes = 0;
  for (const auto& [slice, frozen] : slices_) {
    for (int b = 0; b < slice->block_count(); ++b) {
      if (!frozen.blocks[b].has_value()) continue;
      const Block& live = slice->block(b);
      bytes += BytesApart(frozen.blocks[b]->values(), live.values()) +
               BytesApart(frozen.blocks[b]->slots(), live.slots());
    }
  }
  return bytes;
}

}  // namespace paramd
