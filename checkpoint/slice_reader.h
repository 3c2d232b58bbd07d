#ifndef PARAMD_CHECKPOINT_SLICE_READER_H_
#define PARAMD_CHECKPOINT_SLICE_READER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/manifest.h"
#include "checkpoint/read_target.h"
#include "checkpoint/safetensors.h"
#include "config/optimizer_slots.h"
#include "proto/paramd/v1/storage.pb.h"
#include "tensor/shape.h"

namespace paramd {

// Where the tensors of a checkpoint's files come from: a directory, or a map in
// a test.
class TensorSource {
 public:
  struct File {
    // Empty: the checkpoint's own. Else the directory beside it that has the
    // base of one of its files.
    std::string directory;
    std::string name;
  };

  virtual ~TensorSource() = default;

  // The tensor, valid until the next call; DATA_LOSS naming file and tensor if
  // there is none, or what opening the file failed with.
  virtual absl::StatusOr<const TensorInfo*> Find(const File& file,
                                                 const std::string& tensor) = 0;
  // Fills `out` with the bytes from `offset` on of a tensor that Find found.
  virtual absl::Status Read(const File& file, const std::string& tensor,
                            uint64_t offset, absl::Span<std::byte> out) = 0;
};

// The file that has the tensors which `saved` names for whole slices: `saved`
// itself, or its base.
TensorSource::File WholeSlicesOf(const v1::ShardFile& saved);

// A saved slice's values, or one of its slots.
struct SavedNumbers {
  const SliceIndex::Entry* entry;
  const SliceIndex::Saved* saved;
  std::string slot;  // Empty: the values.
};

// Reads bytes [begin, end) of them as they were in the checkpoint: where the
// file has a base, the base's tensor with the blocks that changed laid over it.
// FAILED_PRECONDITION naming the variable if it was saved without that slot,
// DATA_LOSS if manifest and files disagree, or `out` has no room for all; then
// it holds a part. REQUIRES: the range lies inside the slice.
absl::Status ReadSaved(const SavedNumbers& numbers, uint64_t begin,
                       uint64_t end, TensorSource* source, ReadTarget* out);

// Of the rows of a variable, those that one saved slice has.
struct SavedPart {
  const SliceIndex::Saved* saved;
  RowRange rows;
};
// In order, they make up `rows`. REQUIRES: the variable has these.
std::vector<SavedPart> SavedPartsOf(const SliceIndex::Entry& entry,
                                    RowRange rows);
// Reads the values, or a slot, of all rows of `part`: as ReadSaved.
absl::Status ReadSavedPart(const SavedPart& part,
                           const SliceIndex::Entry& entry,
                           const std::string& slot, TensorSource* source,
                           ReadTarget* out);

// Which slots are read of a slice that `request` wants, in order. They refer to
// both.
std::vector<Slot> SlotsOf(const v1::ReadSlices& request,
                          const v1::ReadSlices::Want& want);

// Reads the rows that `request` wants, in whatever slices the manifest of
// `index` has them: for each wanted slice in order its values, then each wanted
// slot. `result` says which pieces they came from; to its manifest are added
// the files that have them, with no more than what of these slices tells them
// apart, and what they list as lost. Of a keyed variable that had another
// number of rows they are read by key (resized_table.h). INVALID_ARGUMENT
// naming the variable if the checkpoint does not have it, with another shape,
// or with more rows than there is room for; FAILED_PRECONDITION if it was saved
// without a wanted slot; DATA_LOSS if manifest and files disagree, or `out` has
// no room for all. On error `result` and `out` hold a part.
absl::Status ReadSlices(const v1::ReadSlices& request, const SliceIndex& index,
                        TensorSource* source, v1::ReadSlicesResult* result,
                        ReadTarget* out);

// The same, with the whole manifest for a result's.
absl::Status ReadSlices(const v1::ReadSlices& request,
                        const v1::Manifest& manifest, TensorSource* source,
                        v1::ReadSlicesResult* result, ReadTarget* out);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_SLICE_READER_H_
