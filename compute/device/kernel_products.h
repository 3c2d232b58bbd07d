#ifndef PARAMD_COMPUTE_DEVICE_KERNEL_PRODUCTS_H_
#define PARAMD_COMPUTE_DEVICE_KERNEL_PRODUCTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/check.h"
#include "compute/device/device.h"
#include "compute/device/half_kernels.h"
#include "compute/device/kernels.h"
#include "compute/device/window_kernels.h"

namespace paramd {

// A grid of matrix products as cublasGemmStridedBatchedEx has it: column-major,
// c = alpha op(a) op(b) + beta c, c is m x n, leading dimensions and strides in
// elements.
struct ColumnMajorProduct {
  DType operands = DType::kFloat32;  // Of both.
  DType result = DType::kFloat32;
  bool rounds_to_tf32 = false;
  bool transpose_a = false;
  bool transpose_b = false;
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  float alpha = 1;
  const void* a = nullptr;
  uint64_t a_leading = 0;
  uint64_t a_stride = 0;
  const void* b = nullptr;
  uint64_t b_leading = 0;
  uint64_t b_stride = 0;
  float beta = 0;
  void* c = nullptr;
  uint64_t c_leading = 0;
  uint64_t c_stride = 0;
  uint64_t count = 1;
};

// Values of tensors, as kernels take them.
template <class T>
const T* ValuesOf(const ConstTensor& tensor) {
  CHECK(tensor.data == nullptr || tensor.dtype == DTypeOf<T>::value,
        "a kernel is given values of its type");
  return static_cast<const T*>(tensor.data);
}
template <class T>
T* ValuesOf(const Tensor& tensor) {
  CHECK(tensor.data == nullptr || tensor.dtype == DTypeOf<T>::value,
        "a kernel is given values of its type");
  return static_cast<T*>(tensor.data);
}
inline const float* FloatsOf(const ConstTensor& tensor) {
  return ValuesOf<float>(tensor);
}
inline float* FloatsOf(const Tensor& tensor) { return ValuesOf<float>(tensor); }
inline const int32_t* IndicesOf(const ConstTensor& tensor) {
  return static_cast<const int32_t*>(tensor.data);
}

// Calls f(T()) for what kernels have as the dtype.
template <class Function>
void WithElement(DType dtype, Function f) {
  switch (dtype) {
    case DType::kBFloat16:
      return f(kernels::Bf16());
    case DType::kFloat16:
      return f(kernels::Fp16());
    default:
      CHECK(dtype == DType::kFloat32, "kernels compute with float32 at most");
      return f(float());
  }
}

// What begins so many values after.
template <class SomeTensor>
SomeTensor Behind(SomeTensor tensor, uint64_t values) {
  using Byte = std::conditional_t<
      std::is_const_v<std::remove_pointer_t<decltype(tensor.data)>>,
      const std::byte, std::byte>;
  tensor.data = static_cast<Byte*>(tensor.data) + values * SizeOf(tensor.dtype);
  return tensor;
}

// A product for each group.
inline Product ProductOf(const Convolution& shape, uint64_t m, uint64_t k,
                         uint64_t n) {
  Product p;
  p.m = m;
  p.k = k;
  p.n = n;
  p.inner = shape.groups;
  return p;
}

// What a device with memory of its own gives as Scratch: see KernelProducts.
class ScratchMemory {
 public:
  // Of the device, which outlives it. Grows where it has fewer bytes.
  void* Get(Device* device, int number, uint64_t bytes) {
    Piece& piece = pieces_[number];
    if (piece.bytes < bytes) {
      piece = {};
      piece.memory = device->Allocate(bytes);
      if (piece.memory != nullptr) piece.bytes = bytes;
    }
    return piece.memory.get();
  }

 private:
  struct Piece {
    Device::Memory memory;
    uint64_t bytes = 0;
  };
  Piece pieces_[2];
};

// The primitives that are matrix products or are made of them, over kernels, in
// float32 or of operands of two bytes. Where they run is the base's, a Device:
// CUDA's, or that of a test, where the same code runs on the host. The base has
//   Run(count, function)       function(i) for each i below count
//   RunRows(rows, function)    function(row, lanes): see kernels.h
//   MultiplyColumnMajor(...)   a ColumnMajorProduct
//   SortPairs(count, keys, values, sorted_keys, sorted_values)
//                              by keys, of equal ones as they were; may use
//                              scratch memory 1
//   unfolded_bytes()           what unfolded windows may take at a time
//   Scratch(number, bytes)     memory 0 or 1, until it is asked for again; null
//                              if status() says why
// each in order, and doing nothing once status() is not OK.
template <class Base>
class KernelProducts : public Base {
 public:
  using Base::Base;

  DType activations() const override {
    switch (this->compute_format()) {
      case ComputeFormat::kBf16:
        return DType::kBFloat16;
      case ComputeFormat::kFp16:
        return DType::kFloat16;
      default:
        return DType::kFloat32;
    }
  }

  void Multiply(const Product& p, const ConstTensor& a, const ConstTensor& b,
                const Tensor& c) override {
    MultiplyGrid(p, a, b, /*add=*/false, c);
  }

  void Convolve(const Convolution& shape, const ConstTensor& input,
                const ConstTensor& kernel, const ConstTensor& bias,
                const Tensor& output) override {
    ForEachPiece(shape, activations(), [&](const Piece& piece) {
      UnfoldInput(shape, piece, input);
      Product p = ProductOf(shape, piece.rows, piece.width, piece.outputs);
      p.a = piece.OfUnfolded();
      p.b = p.c = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      MultiplyGrid(p, piece.unfolded, kernel, false,
                   Behind(output, piece.first_row * shape.outputs));
    });
    if (bias.data != nullptr) this->AddRow(output, bias, output);
  }

  void ConvolveBackwardInput(const Convolution& shape,
                             const ConstTensor& kernel,
                             const ConstTensor& output_gradient,
                             const Tensor& input_gradient) override {
    ForEachPiece(shape, DType::kFloat32, [&](const Piece& piece) {
      Product p = ProductOf(shape, piece.rows, piece.outputs, piece.width);
      p.transpose_b = true;
      p.a = p.b = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      p.c = piece.OfUnfolded();
      MultiplyGrid(p, Behind(output_gradient, piece.first_row * shape.outputs),
                   kernel, false, piece.unfolded);
      const Window& w = shape.window;
      WithElement(input_gradient.dtype, [&](auto zero) {
        using T = decltype(zero);
        this->Run(piece.images * w.height * w.width * w.channels,
                  kernels::Fold<T>{w, shape.groups, piece.first, piece.rows,
                                   FloatsOf(piece.unfolded),
                                   ValuesOf<T>(input_gradient)});
      });
    });
  }

  void ConvolveBackwardKernel(const Convolution& shape,
                              const ConstTensor& input,
                              const ConstTensor& output_gradient,
                              const Tensor& kernel_gradient) override {
    if (shape.window.batch == 0) Zero(kernel_gradient);
    ForEachPiece(shape, activations(), [&](const Piece& piece) {
      UnfoldInput(shape, piece, input);
      Product p = ProductOf(shape, piece.width, piece.rows, piece.outputs);
      p.transpose_a = true;
      p.a = piece.OfUnfolded();
      p.b = p.c = {.row = shape.outputs, .outer = 0, .inner = piece.outputs};
      MultiplyGrid(p, piece.unfolded,
                   Behind(output_gradient, piece.first_row * shape.outputs),
                   /*add=*/piece.first > 0, kernel_gradient);
    });
  }

 protected:
  // The numbers of scratch memory: for what a primitive is made of, and for the
  // operands of a product.
  static constexpr int kParts = 0;
  static constexpr int kOperands = 1;

  void Zero(const Tensor& tensor) {
    this->Run(tensor.size(), kernels::Fill<float>{0, FloatsOf(tensor)});
  }

 private:
  // Images of a convolution whose windows are unfolded at once.
  struct Piece {
    uint64_t first;  // Image.
    uint64_t images;
    uint64_t first_row;  // Of the output's, and how many.
    uint64_t rows;
    uint64_t width;    // Values of a window in a group.
    uint64_t outputs;  // Of a group.
    Tensor unfolded;

    Product::Strides OfUnfolded() const {
      return {.row = width, .outer = 0, .inner = rows * width};
    }
  };

  // Packs operands of float32 in two bytes a value. False: there is no memory.
  bool Halve(Product* p, ConstTensor* a, ConstTensor* b) {
    const auto left = kernels::OperandRows::Left(*p);
    const auto right = kernels::OperandRows::Right(*p);
    // The second begins where it is aligned.
    const uint64_t first =
        IsHalf(a->dtype) ? 0 : (left.size() + 127) / 128 * 128;
    const uint64_t values = first + (IsHalf(b->dtype) ? 0 : right.size());
    if (values == 0) return true;
    const Tensor packed = {this->Scratch(kOperands, values * sizeof(uint16_t)),
                           activations(),
                           {values}};
    if (packed.data == nullptr) return false;
    const auto halve = [&](const kernels::OperandRows& rows, const Tensor& to,
                           Product::Strides* strides, ConstTensor* operand) {
      if (IsHalf(operand->dtype)) return;
      WithElement(to.dtype, [&](auto zero) {
        using T = decltype(zero);
        this->RunRows(
            rows.count,
            kernels::HalveRows<T>{rows, FloatsOf(*operand), ValuesOf<T>(to)});
      });
      operand->data = to.data;
      operand->dtype = to.dtype;
      *strides = rows.packed();
    };
    halve(left, packed, &p->a, a);
    halve(right, Behind(packed, first), &p->b, b);
    return true;
  }

  // Row-major is column-major transposed: c' = op(b)' op(a)'. The longer side
  // of the grid is one call.
  void MultiplyGrid(Product p, ConstTensor a, ConstTensor b, bool add,
                    const Tensor& c) {
    if (p.m == 0 || p.n == 0) return;
    if (p.k == 0) {
      if (!add) ZeroGrid(p, c);
      return;
    }
    if (IsHalf(activations()) && !Halve(&p, &a, &b)) return;
    const bool by_outer = p.outer >= p.inner;
    const auto stride = [&](const Product::Strides& s) {
      return by_outer ? s.outer : s.inner;
    };
    const auto step = [&](const Product::Strides& s) {
      return by_outer ? s.inner : s.outer;
    };
    for (uint64_t i = 0; i < (by_outer ? p.inner : p.outer); ++i) {
      ColumnMajorProduct call;
      call.operands = a.dtype;
      call.result = c.dtype;
      call.rounds_to_tf32 = this->compute_format() == ComputeFormat::kTf32;
      call.transpose_a = p.transpose_b;
      call.transpose_b = p.transpose_a;
      call.m = p.n;
      call.n = p.m;
      call.k = p.k;
      call.alpha = static_cast<float>(p.scale);
      call.a = Behind(b, i * step(p.b)).data;
      call.a_leading = p.b_row();
      call.a_stride = stride(p.b);
      call.b = Behind(a, i * step(p.a)).data;
      call.b_leading = p.a_row();
      call.b_stride = stride(p.a);
      call.beta = add ? 1 : 0;
      call.c = Behind(c, i * step(p.c)).data;
      call.c_leading = p.c_row();
      call.c_stride = stride(p.c);
      call.count = by_outer ? p.outer : p.inner;
      this->MultiplyColumnMajor(call);
    }
  }

  void ZeroGrid(const Product& p, const Tensor& c) {
    WithElement(c.dtype, [&](auto zero) {
      using T = decltype(zero);
      this->Run(p.outer * p.inner * p.m * p.n,
                kernels::ZeroGrid<T>{p.inner, p.m, p.n, p.c, ValuesOf<T>(c)});
    });
  }

  // `dtype`: of unfolded values.
  template <class Function>
  void ForEachPiece(const Convolution& shape, DType dtype, Function f) {
    const Window& w = shape.window;
    Piece piece;
    piece.width = w.kernel_height * w.kernel_width * shape.group_inputs();
    piece.outputs = shape.group_outputs();
    const uint64_t places = w.out_height * w.out_width;
    const uint64_t image = std::max<uint64_t>(
        places * piece.width * shape.groups * SizeOf(dtype), 1);
    const uint64_t at_once = std::min(
        std::max<uint64_t>(this->unfolded_bytes() / image, 1), w.batch);
    if (at_once == 0) return;
    piece.unfolded.data = this->Scratch(kParts, at_once * image);
    piece.unfolded.dtype = dtype;
    if (piece.unfolded.data == nullptr) return;
    for (piece.first = 0; piece.first < w.batch; piece.first += at_once) {
      piece.images = std::min(at_once, w.batch - piece.first);
      piece.first_row = piece.first * places;
      piece.rows = piece.images * places;
      f(piece);
    }
  }

  void UnfoldInput(const Convolution& shape, const Piece& piece,
                   const ConstTensor& input) {
    WithElement(piece.unfolded.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto unfold = [&](const auto* in) {
        using In = std::remove_const_t<std::remove_pointer_t<decltype(in)>>;
        this->Run(shape.groups * piece.rows * piece.width,
                  kernels::Unfold<In, T>{shape.window, shape.groups,
                                         piece.first, piece.rows, in,
                                         ValuesOf<T>(piece.unfolded)});
      };
      if (IsHalf(input.dtype)) {
        unfold(ValuesOf<T>(input));
      } else {
        unfold(FloatsOf(input));
      }
    });
  }
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_KERNEL_PRODUCTS_H_
