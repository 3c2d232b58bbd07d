#include "server/core/whole_files.h"

#include <utility>

#include "proto/refusal.h"

namespace paramd {

void WholeFiles::Add(const v1::SnapshotNumber& number, const SnapshotFork& fork,
                     const std::vector<Slice*>& slices) {
  File& file = newest_.emplace();
  file.number = number;
  for (const Slice* const slice : slices) {
    std::vector<Life>& blocks = file.blocks[slice];
    blocks.reserve(slice->block_count());
    for (int b = 0; b < slice->block_count(); ++b) {
      const v1::BlockVersion changed = fork.block(*slice, b).changed();
      blocks.push_back({changed.life(), changed.counter()});
    }
  }
}

bool WholeFiles::Use(const v1::SnapshotNumber& base) {
  if (IsZero(base)) {
    base_.reset();
    return false;
  }
  if (base_.has_value() && base_->number == base) return true;
  base_.reset();
  if (!newest_.has_value() || newest_->number != base) return false;
  base_ = std::exchange(newest_, absl::nullopt);
  return true;
}

bool WholeFiles::IsUnchanged(const Slice& slice, int block,
                             const Block& frozen) const {
  const auto known = base_->blocks.find(&slice);
  if (known == base_->blocks.end()) return false;
  const Life& then = known->second[block];
  const v1::BlockVersion now = frozen.changed();
  return then.life == now.life() && then.changed == now.counter();
}

}  // namespace paramd
