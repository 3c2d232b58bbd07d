#ifndef PARAMD_CLIENT_CORE_WEIGHTS_H_
#define PARAMD_CLIENT_CORE_WEIGHTS_H_

#include <functional>
#include <vector>

#include "absl/types/span.h"

#include "client/core/placement.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/buffer.h"
#include "tensor/lent_weights.h"
#include "tensor/number_format.h"
#include "tensor/number_reader.h"
#include "tensor/unified_memory.h"

namespace paramd {

// A worker's copy of the variables, with the version of each block it holds.
// A pull writes into it; while one is open nobody else may touch it.
//
// Not thread-safe. The placement is copied out of, not kept.
class Weights {
 public:
  Weights() = default;
  explicit Weights(const Placement& placement);
  // Of sparse variables it has nothing: a step looks up what it needs of them.
  // It lies in `memory`, as copy `which` there.
  static Weights WithoutSparse(const Placement& placement,
                               const WeightMemory& memory = {},
                               size_t which = 0);

  bool has(size_t variable) const { return !values_[variable].empty(); }
  // Its values may have been overwritten since they were pulled.
  bool is_lent(size_t variable) const { return lent_[variable]; }

  // Variable `v`, row-major.
  absl::Span<const float> variable(size_t v) const;
  std::vector<absl::Span<const float>> variables() const;
  // One buffer a variable, for whoever reads them elsewhere. While one is held
  // there, Set may not be called.
  BufferChain buffers() const {
    return BufferChain(values_.begin(), values_.end());
  }

  // The version of a block; all zero: never pulled.
  const v1::BlockVersion& version(uint32_t slice, uint32_t block) const {
    return versions_[slice][block];
  }
  // Reads the block's elements and remembers its version.
  // REQUIRES: the block has that many elements, and so has the reader.
  void Set(const PlacedSlice& slice, uint32_t slice_id, uint32_t block,
           const v1::BlockVersion& version, const NumberReader& values);
  // The same of a block that came packed, in this format.
  // REQUIRES: its bits are right, and the reader has them and the numbers.
  void SetPacked(const PlacedSlice& slice, const v1::PulledBlock& block,
                 NumberFormat format, ChainReader* packed);

 private:
  Weights(const Placement& placement, bool with_sparse,
          const WeightMemory& memory, size_t which);
  // Memory for a variable, all zeros.
  Buffer Allocate(size_t bytes) const;
  // Where a block of it lies.
  float* BlockOf(const PlacedSlice& slice, uint32_t block);

  UnifiedMemory* device_ = nullptr;
  std::function<Buffer(size_t size)> pinned_;

  std::vector<Buffer> values_;                           // By variable.
  std::vector<bool> lent_;                               // By variable.
  std::vector<std::vector<v1::BlockVersion>> versions_;  // By slice and block.
};

// The values in such buffers, which outlive what is returned.
std::vector<absl::Span<const float>> ValuesOf(const BufferChain& buffers);

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_WEIGHTS_H_
