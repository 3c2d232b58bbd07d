#ifndef PARAMD_CHECKPOINT_MANIFEST_H_
#define PARAMD_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "checkpoint/safetensors.h"
#include "proto/paramd/v1/snapshot.pb.h"
#include "tensor/shape.h"

namespace paramd {

// Format 1 of a checkpoint: a directory of safetensors files, one a server, and
// two files that say what they are. `manifest.json` is v1::Manifest in JSON;
// `manifest.crc32c` holds its crc32c in hexadecimal, so that a flipped bit in
// the manifest itself is seen.
inline constexpr uint32_t kManifestFormat = 1;
inline constexpr uint64_t kMaxManifestBytes = uint64_t{256} << 20;
inline constexpr char kManifestFile[] = "manifest.json";
inline constexpr char kManifestSumFile[] = "manifest.crc32c";

// The manifest as text. RESOURCE_EXHAUSTED above kMaxManifestBytes.
absl::StatusOr<std::string> EncodeManifest(const v1::Manifest& manifest);

// Keys that this version does not know are passed over; a manifest that needs a
// newer reader is FAILED_PRECONDITION naming both versions, anything that is no
// manifest DATA_LOSS.
absl::StatusOr<v1::Manifest> ParseManifest(absl::string_view text);

// Which saved slices make up each variable of a manifest.
//
// Invariant: the slices of every variable cover its rows, each row once.
// Points into the manifest, which outlives it. Immutable, hence thread-safe.
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

  // DATA_LOSS naming what is wrong: a variable twice or with an impossible
  // shape, a file name that is not a plain name or stands twice, a slice of an
  // unknown variable, without one of the manifest's slots, or with rows that
  // leave a gap or overlap.
  static absl::StatusOr<SliceIndex> Create(const v1::Manifest& manifest);

  // Null if the manifest has no such variable.
  const Entry* Find(absl::string_view variable) const;
  // In the manifest's order.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  absl::flat_hash_map<std::string, size_t> by_name_;
};

// Whether `tensor` can be rows [begin, end) of the variable, values or slot:
// its dtype, and its shape with those rows for first dimension. DATA_LOSS
// naming both.
absl::Status CheckSavedTensor(const TensorInfo& tensor,
                              const v1::Variable& variable, uint64_t begin,
                              uint64_t end);

// Whether `name` may name a file in a checkpoint: one plain component, at most
// 255 bytes, not hidden, and not one of the manifest's.
bool IsShardFileName(absl::string_view name);

// "F32"; empty if the format has no name for it.
absl::string_view SafetensorsDType(v1::DType dtype);
// Bytes of one element.
uint64_t ElementBytes(v1::DType dtype);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_MANIFEST_H_
