#ifndef PARAMD_CHECKPOINT_TRAINED_TENSORS_H_
#define PARAMD_CHECKPOINT_TRAINED_TENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "tensor/buffer.h"
#include "tensor/shape.h"

namespace paramd {

// Whole tensors of something that was trained before, by name, wherever they
// lie: a checkpoint of paramd, a safetensors file, or several of them with an
// index. Reads only what is asked for.
//
// Not thread-safe.
class TrainedTensors {
 public:
  struct Tensor {
    std::string dtype;  // "F32"
    std::vector<uint64_t> shape;
    std::string file;    // Where it lies, for people.
    bool keyed = false;  // Its rows have keys: ReadKeys.
  };
  struct Rows {
    std::string tensor;
    RowRange rows;
  };

  // `path` is one of:
  //   - a directory with manifest.json: a committed checkpoint of paramd,
  //   - a directory with model.safetensors.index.json, as Hugging Face has it,
  //   - a safetensors file.
  // NOT_FOUND if there is nothing, FAILED_PRECONDITION for another directory,
  // or a file of torch.save, DATA_LOSS naming what is wrong with the file.
  static absl::StatusOr<std::unique_ptr<TrainedTensors>> Open(
      const std::string& path);

  virtual ~TrainedTensors() = default;

  // In order.
  virtual std::vector<std::string> names() const = 0;
  // NOT_FOUND if there is none of that name; FAILED_PRECONDITION naming the
  // file that is missing, DATA_LOSS the one that does not have what its index
  // says.
  virtual absl::StatusOr<Tensor> Find(const std::string& name) = 0;
  // Appends those rows of each as float32. FAILED_PRECONDITION if one is
  // neither F32 nor F16 nor BF16; DATA_LOSS naming the file that is damaged.
  // REQUIRES: Find knows the tensors, they have the rows.
  virtual absl::Status Read(absl::Span<const Rows> wanted,
                            BufferChain* out) = 0;

  // Of each of those rows its key, and when it was last used, 0 for a row
  // without a key; both replaced. FAILED_PRECONDITION if they are not kept as
  // paramd keeps them; else as Read. REQUIRES: Find says that it is keyed, it
  // has the rows.
  struct Keys {
    std::vector<uint64_t> keys;
    std::vector<uint64_t> used;
  };
  virtual absl::Status ReadKeys(const Rows& wanted, Keys* out) = 0;
};

// Appends the rows `wanted` to *out: as Read. INVALID_ARGUMENT naming the first
// of their numbers that training can't begin with: all others would become like
// it.
absl::Status ReadFinite(absl::Span<const TrainedTensors::Rows> wanted,
                        TrainedTensors* tensors, BufferChain* out);

// Whether `dtype` is one that Read converts.
bool IsTrainedDType(absl::string_view dtype);

// What a directory holds that Open takes, by looking at names alone:
// "manifest.json", "model.safetensors.index.json", or neither: "".
std::string TrainedFileIn(const std::string& directory);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_TRAINED_TENSORS_H_
