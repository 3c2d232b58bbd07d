#ifndef PARAMD_CHECKPOINT_MANIFEST_H_
#define PARAMD_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "checkpoint/safetensors.h"
#include "config/optimizer_slots.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/shape.h"

namespace paramd {

// A checkpoint is a directory of safetensors files, one a server, and two files
// that say what they are. `manifest.json` is v1::Manifest in JSON;
// `manifest.crc32c` holds its crc32c in hexadecimal, so that a flipped bit in
// the manifest itself is seen. Format 2 is format 1 with files that have a
// base: the file of an earlier checkpoint that has the blocks which did not
// change. Format 3 is format 1 with a file whose tensors have fewer bits
// (quantization.h). Format 4 is format 2 with tables whose values are BF16.
// Format 5 is format 4 with variables that have slots of their own.
inline constexpr uint32_t kManifestFormat = 5;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kManifestSumFile[] = "manifest.crc32c";

// The manifest as text, for people in lines unless that makes it long.
// RESOURCE_EXHAUSTED above kMaxManifestBytes.
absl::StatusOr<std::string> EncodeManifest(const v1::Manifest& manifest);

// Keys that this version does not know are passed over; a manifest that needs a
// newer reader is FAILED_PRECONDITION naming both versions, anything that is no
// manifest DATA_LOSS.
absl::StatusOr<v1::Manifest> ParseManifest(absl::string_view text);

// What was saved beside the values of a variable: nothing if it is untrained.
// Refers to the manifest.
std::vector<Slot> SlotsOf(const v1::Manifest& manifest,
                          const v1::Variable& variable);

// The oldest format whose readers understand `manifest`.
uint32_t FormatOf(const v1::Manifest& manifest);

// Which saved slices make up each variable of a manifest.
//
// Invariant: the slices of every variable cover its rows, each row once.
// Points into the manifest, which outlives it. Not changed once it is made,
// hence thread-safe.
class SliceIndex {
 public:
  struct Saved {
    const v1::SavedSlice* slice;
    const v1::ShardFile* file;
  };
  struct Entry {
    const v1::Variable* variable;
    RowShape shape;
    // In the order of their rows.
    std::vector<Saved> saved;
  };

  SliceIndex() = default;  // Of no variables.

  // DATA_LOSS naming what is wrong: a variable twice or with an impossible
  // shape, a file name that is not a plain name or stands twice, a base that is
  // not of an earlier checkpoint, a slice of an unknown variable, without one
  // of the manifest's slots, or with rows that leave a gap or overlap, changed
  // blocks that it does not have, or that have no base.
  static absl::StatusOr<SliceIndex> Create(const v1::Manifest& manifest);

  // Null if the manifest has no such variable.
  const Entry* Find(absl::string_view variable) const;
  // In the manifest's order.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

// Pushes that each block of a saved slice contains, as far as it says.
std::vector<uint64_t> AppliedOf(const v1::SavedSlice& slice);

// How such a variable's slices lie in blocks. REQUIRES: a SliceIndex has it.
BlockCut CutOf(const v1::Variable& variable, const RowShape& shape);

// Bytes of a slot, "" for the values, beside so many elements of a variable, as
// they are read: values as float32.
uint64_t BytesBeside(uint64_t elements, absl::string_view slot,
                     const SliceIndex::Entry& entry);

// What a row of a variable takes in files, with its slots.
uint64_t RowBytes(const v1::Manifest& manifest, const SliceIndex::Entry& entry);

// Whether `tensor` can be rows [begin, end) of a slot of the variable, "" for
// its values: the dtype, and the shape with those rows for first dimension, or
// for only one. DATA_LOSS naming both.
absl::Status CheckSavedTensor(const TensorInfo& tensor,
                              const v1::Variable& variable,
                              absl::string_view slot, uint64_t begin,
                              uint64_t end);

// Whether `tensor` can be a slot, or the values, of those blocks of `slice`,
// which is one of the variable's: the dtype, and one dimension with their
// elements or rows. DATA_LOSS naming both.
absl::Status CheckChangedTensor(const TensorInfo& tensor,
                                const v1::Variable& variable,
                                absl::string_view slot,
                                const v1::SavedSlice& slice,
                                const v1::ChangedBlocks& changed);

// Elements [begin, end) of a slice of `slice_elements`, in blocks of `cut`.
struct ElementRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};
ElementRange ElementsOf(const v1::ChangedBlocks& changed, const BlockCut& cut,
                        uint64_t slice_elements);

// Whether `name` may name a file in a checkpoint: one plain component, at most
// 255 bytes, not hidden, and not one of the manifest's.
bool IsShardFileName(absl::string_view name);

// "F32"; empty if the format has no name for it.
absl::string_view SafetensorsDType(v1::DType dtype);
// Bytes of one element.
uint64_t ElementBytes(v1::DType dtype);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_MANIFEST_H_
