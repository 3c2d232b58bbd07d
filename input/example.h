#ifndef PARAMD_INPUT_EXAMPLE_H_
#define PARAMD_INPUT_EXAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "base/check.h"
#include "tensor/tensor.h"

namespace paramd {

// A tensor that owns its values. Its memory grows and is used again.
class OwnedTensor {
 public:
  DType dtype() const { return dtype_; }
  const Dims& dims() const { return dims_; }
  uint64_t size() const { return SizeOf(dims_); }

  // Becomes a tensor of this dtype and shape, whose values are not specified.
  void Reset(DType dtype, const Dims& dims) {
    dtype_ = dtype;
    dims_ = dims;
    const size_t bytes = size() * SizeOf(dtype);
    if (memory_.size() < bytes) memory_.resize(bytes);
  }
  // Another shape of the same values. REQUIRES: of the same size.
  void Reshape(const Dims& dims) {
    CHECK(SizeOf(dims) == size(), "another shape has as many values");
    dims_ = dims;
  }

  absl::Span<std::byte> bytes() {
    return {memory_.data(), size() * SizeOf(dtype_)};
  }
  absl::Span<const std::byte> bytes() const {
    return {memory_.data(), size() * SizeOf(dtype_)};
  }
  // REQUIRES: T is of the dtype.
  template <class T>
  absl::Span<T> values() {
    CHECK(DTypeOf<T>::value == dtype_, "values are read as what they are");
    return {reinterpret_cast<T*>(memory_.data()), size()};
  }
  template <class T>
  absl::Span<const T> values() const {
    CHECK(DTypeOf<T>::value == dtype_, "values are read as what they are");
    return {reinterpret_cast<const T*>(memory_.data()), size()};
  }

 private:
  DType dtype_ = DType::kFloat32;
  Dims dims_;
  std::vector<std::byte> memory_;
};

// Where an example stands at some stage: `offset` in the order of an epoch.
struct ExamplePlace {
  uint64_t epoch = 0;
  uint64_t offset = 0;
};

// One example: a tensor for each feature of a spec, in its order.
struct Example {
  std::vector<OwnedTensor> values;
  uint64_t index = 0;    // In the source.
  bool dropped = false;  // By a filter; the values are then of no use.
  OwnedTensor scratch;   // Of whichever stage is at it.
};

}  // namespace paramd

#endif  // PARAMD_INPUT_EXAMPLE_H_
