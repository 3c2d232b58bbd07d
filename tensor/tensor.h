#ifndef PARAMD_TENSOR_TENSOR_H_
#define PARAMD_TENSOR_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

#include "base/check.h"

namespace paramd {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kInt32,
  kInt64,
  kUInt8,
  // In the memory of devices alone.
  kBFloat16,
  kFloat16,
};

// Bytes of one value.
constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kUInt8:
      return 1;
    case DType::kBFloat16:
    case DType::kFloat16:
      return 2;
  }
  return 0;
}

// "float32".
constexpr const char* NameOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kUInt8:
      return "uint8";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
  }
  return "?";
}

constexpr bool IsHalf(DType dtype) {
  return dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

// What sums of these numbers, weights and their gradients are kept in.
constexpr DType WideOf(DType dtype) {
  return IsHalf(dtype) ? DType::kFloat32 : dtype;
}

// The dtype of a C++ type: DTypeOf<float>::value.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};

// Row-major; empty: a scalar.
using Dims = absl::InlinedVector<uint64_t, 6>;

inline uint64_t SizeOf(const Dims& dims) {
  uint64_t size = 1;
  for (const uint64_t dimension : dims) size *= dimension;
  return size;
}

// A view of somebody else's values.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  Dims dims;

  uint64_t size() const { return SizeOf(dims); }
  // REQUIRES: T is of the dtype.
  template <class T>
  absl::Span<T> values() const {
    CHECK(DTypeOf<T>::value == dtype, "values are read as what they are");
    return {static_cast<T*>(data), size()};
  }
};

struct ConstTensor {
  ConstTensor() = default;
  ConstTensor(const void* values, DType type, Dims shape)
      : data(values), dtype(type), dims(std::move(shape)) {}
  ConstTensor(const Tensor& tensor)  // NOLINT: a view that promises less.
      : data(tensor.data), dtype(tensor.dtype), dims(tensor.dims) {}

  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  Dims dims;

  uint64_t size() const { return SizeOf(dims); }
  // REQUIRES: T is of the dtype.
  template <class T>
  absl::Span<const T> values() const {
    CHECK(DTypeOf<T>::value == dtype, "values are read as what they are");
    return {static_cast<const T*>(data), size()};
  }
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_TENSOR_H_
