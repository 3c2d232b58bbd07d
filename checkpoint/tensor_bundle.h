#ifndef PARAMD_CHECKPOINT_TENSOR_BUNDLE_H_
#define PARAMD_CHECKPOINT_TENSOR_BUNDLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "checkpoint/file.h"
#include "tensor/number_format.h"

namespace paramd {

// Writes TensorFlow's TensorBundle, which tf.train.load_checkpoint reads:
//
//   ckpt.data-00000-of-00001   the tensors' bytes, one after the other
//   ckpt.index                 a sorted table: name → dtype, shape, place,
//   crc32c checkpoint                 says that `ckpt` is the newest
//
// The formats are those of TensorFlow's core/protobuf/tensor_bundle.proto and
// python/training/checkpoint_state.proto, of which a handful of fields is set.
//
// Holds the index in memory, no tensor. Unless Finish succeeded, the data file
// is gone with this object. Not thread-safe.
class TensorBundleWriter {
 public:
  struct Tensor {
    std::string name;
    NumberFormat format = NumberFormat::kFp32;
    std::vector<uint64_t> shape = {};
    bool is_int64 = false;  // Instead of the format.
  };

  // Makes the data file in `directory`; what that fails with.
  static absl::StatusOr<std::unique_ptr<TensorBundleWriter>> Create(
      const std::string& directory);

  // What is appended from now on is this tensor's. INVALID_ARGUMENT if there is
  // one of that name, or its name is empty.
  absl::Status Begin(const Tensor& tensor);
  // What writing fails with.
  absl::Status Append(absl::Span<const std::byte> bytes);
  // On OK all three files are durable; their names are once the directory is
  // synced.
  absl::Status Finish();

 private:
  struct Entry {
    Tensor tensor;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint32_t crc32c = 0;
  };

  TensorBundleWriter(std::string directory, std::unique_ptr<NewFile> data)
      : directory_(std::move(directory)), data_(std::move(data)) {}

  // A BundleEntryProto.
  static std::string Encode(const Entry& entry);
  absl::Status WriteIndex() const;

  const std::string directory_;
  const std::unique_ptr<NewFile> data_;
  std::map<std::string, Entry> entries_;  // In the order of the table.
  Entry* current_ = nullptr;
};

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_TENSOR_BUNDLE_H_
