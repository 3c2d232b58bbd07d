#ifndef PARAMD_CHECKPOINT_RESIZED_TABLE_H_
#define PARAMD_CHECKPOINT_RESIZED_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/manifest.h"
#include "checkpoint/read_target.h"
#include "checkpoint/slice_reader.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/keyed_rows.h"
#include "tensor/shape.h"

namespace paramd {

// Rows of a keyed variable out of a checkpoint in which it had another number
// of them, so other buckets: each row that has a key lies with its values and
// slots, bit for bit, in the bucket that the key has here.
//
// In a bucket the row that was used last comes first, so that those in memory
// are the newest where not all are (memory_rows); of equals the one that came
// first there. Those without a key come last, and are all zeros, as is the
// sketch of keys without a row, whose counters belong to buckets there.
//
// A use is a number of a push to the block, and blocks that become one may have
// counted differently. All blocks here go on from the highest count, and each
// use is raised by as much as the count of its block, so that it was as many
// pushes ago as it was. Records of pushes are joined likewise: a push that is
// in one of the blocks there counts as in.
//
// Memory: 24 bytes for each wanted row, a bucket here, one there, and 4 MiB.
//
// Not thread-safe. What it is opened with outlives it.
class ResizedTable {
 public:
  // Reads keys and uses of the rows that `want` may get. INVALID_ARGUMENT if
  // the wanted rows are not whole buckets, or one of these has no room for its
  // keys; what ReadSaved fails with. REQUIRES: the variable is keyed, and its
  // rows have as many values as the wanted ones.
  static absl::StatusOr<ResizedTable> Open(const v1::ReadSlices::Want& want,
                                           const SliceIndex::Entry& entry,
                                           TensorSource* source);

  // What the checkpoint would say of the wanted rows if they had been saved as
  // one slice: pushes, records, and the root mean square of gradients, but no
  // tensors.
  const v1::SavedSlice& counts() const { return counts_; }
  // Where the rows may come from.
  const std::vector<SavedPart>& sources() const { return sources_; }

  // The values of all wanted rows, or one of their slots. What ReadSaved fails
  // with; then `out` holds a part.
  absl::Status Read(const std::string& slot, ReadTarget* out) const;

 private:
  struct Row {
    uint64_t there;  // Of the variable in the checkpoint.
    uint64_t used;   // As it counts here.
    uint64_t place;  // Of the wanted rows.
  };

  ResizedTable(const v1::ReadSlices::Want& want, const SliceIndex::Entry& entry,
               TensorSource* source);

  uint64_t width() const { return entry_->shape.row_elements; }
  uint64_t buckets() const { return all_rows_ / bucket_rows_; }
  // The rows there in whose buckets keys of bucket `bucket` lie.
  RowRange RangeOf(uint64_t bucket) const {
    return RowsWithKeysOf(bucket, buckets(), entry_->shape.rows, width());
  }
  void JoinCounts();
  // Appends those of a bucket, as they lie there, and says where they go.
  absl::Status FindRows(uint64_t bucket);
  // Appends those that one saved slice has.
  absl::Status FindIn(const SavedPart& part, uint64_t bucket);
  // What those rows there have, into `bytes`, which is as long.
  absl::Status ReadThere(const std::string& slot, RowRange rows,
                         absl::Span<std::byte> bytes) const;
  // What `rows` have to where they go in `bytes`, which begins with the place
  // `first`.
  absl::Status Gather(const std::string& slot, absl::Span<const Row> rows,
                      uint64_t first, absl::Span<std::byte> bytes) const;

  const SliceIndex::Entry* entry_;
  TensorSource* source_;
  RowRange wanted_;
  uint64_t all_rows_;
  uint64_t bucket_rows_;
  std::vector<SavedPart> sources_;
  v1::SavedSlice counts_;
  uint64_t pushes_ = 0;       // That each block here counts.
  std::vector<Row> rows_;     // By bucket, and in it by `there`.
  std::vector<size_t> ends_;  // Of the buckets, in rows_.
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_RESIZED_TABLE_H_
