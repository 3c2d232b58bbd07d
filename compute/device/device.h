#ifndef PARAMD_COMPUTE_DEVICE_DEVICE_H_
#define PARAMD_COMPUTE_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"

#include "compute/device/compute_format.h"
#include "compute/device/shapes.h"
#include "tensor/tensor.h"

namespace paramd {

class DeviceLink;

// Where a model computes: memory, and the primitives that layers call. Tensors
// handed in lie in the device's memory, hold float32 or all float64, and
// overlap only where a method says that they may. What layers hand on to each
// other may hold activations() instead; then sums, statistics, tables, and rows
// of one number a column are float32. Every primitive overwrites
// what it computes, is checked against ReferenceDevice on random input, and
// gives the same bits for the same input on the same machine. A shape that it
// has seen before allocates none of our memory.
//
// Calls are in order; a device that runs them later than it is told to ends
// them all in Finish. Not thread-safe: one per thread.
//
// REQUIRES, of each: dtypes agree and sizes fit.
class Device {
 public:
  // Frees itself.
  using Memory = std::unique_ptr<void, std::function<void(void*)>>;

  virtual ~Device() = default;

  // The way there and back; null: the device's memory is the host's.
  virtual DeviceLink* link() { return nullptr; }
  // Why it computes no more: UNAVAILABLE, it is lost; RESOURCE_EXHAUSTED, it
  // had not the memory that was asked for. Calls then return at once, and what
  // they should have written is not defined.
  virtual absl::Status status() const { return absl::OkStatus(); }

  // Values of it are not set. Aligned to 64 bytes. Null if status() says why.
  virtual Memory Allocate(size_t bytes) = 0;
  // Between host memory and the device's, or inside one of them.
  virtual void Copy(const void* from, size_t bytes, void* to) = 0;
  virtual void Finish() {}

  // Of Multiply and the convolutions, on float32. Called before anything is
  // computed, if at all.
  virtual void SetComputeFormat(ComputeFormat format) { format_ = format; }
  ComputeFormat compute_format() const { return format_; }
  // What layers hand on to each other, beside float64: float32, or the format's
  // two bytes where the device keeps numbers so.
  virtual DType activations() const { return DType::kFloat32; }

  virtual void Multiply(const Product& product, const ConstTensor& a,
                        const ConstTensor& b, const Tensor& c) = 0;

  // Images [batch, height, width, channels], kernels [height, width, channels
  // of a group, outputs]; `bias`, one per output, may have null data.
  virtual void Convolve(const Convolution& shape, const ConstTensor& input,
                        const ConstTensor& kernel, const ConstTensor& bias,
                        const Tensor& output) = 0;
  virtual void ConvolveBackwardInput(const Convolution& shape,
                                     const ConstTensor& kernel,
                                     const ConstTensor& output_gradient,
                                     const Tensor& input_gradient) = 0;
  virtual void ConvolveBackwardKernel(const Convolution& shape,
                                      const ConstTensor& input,
                                      const ConstTensor& output_gradient,
                                      const Tensor& kernel_gradient) = 0;

  // `places`, bytes of the output's dims, keeps for a maximum where in its
  // window it was (of equal ones the first); for an average it is not used.
  // An average is over the values inside of the image.
  virtual void Pool(const Pooling& shape, const ConstTensor& input,
                    const Tensor& output, const Tensor& places) = 0;
  virtual void PoolBackward(const Pooling& shape, const ConstTensor& places,
                            const ConstTensor& output_gradient,
                            const Tensor& input_gradient) = 0;
  // [batch, places, channels] to [batch, channels].
  virtual void PoolAll(Pooling::Kind kind, const ConstTensor& input,
                       const Tensor& output) = 0;
  virtual void PoolAllBackward(Pooling::Kind kind, const ConstTensor& input,
                               const ConstTensor& output,
                               const ConstTensor& output_gradient,
                               const Tensor& input_gradient) = 0;

  // [batch, places, values] to [batch, values], without the places whose values
  // are all zero; zero where no other is. They get no gradient either, but that
  // of a sum, to which they belong as well. Of equal maxima the first one gets
  // it.
  virtual void PoolBag(Bag kind, const ConstTensor& input,
                       const Tensor& output) = 0;
  virtual void PoolBagBackward(Bag kind, const ConstTensor& input,
                               const ConstTensor& output,
                               const ConstTensor& output_gradient,
                               const Tensor& input_gradient) = 0;

  // y = (x - mean) / sqrt(variance + epsilon) * scale + shift over [rows,
  // columns]: with statistics of columns (a batch norm; the variance is the
  // mean squared deviation). BatchNorm computes them and keeps them in `mean`
  // and `variance`; BatchNormWith takes them.
  virtual void BatchNorm(const Norm& norm, const ConstTensor& input,
                         const Tensor& mean, const Tensor& variance,
                         const Tensor& output) = 0;
  virtual void BatchNormWith(const Norm& norm, const ConstTensor& input,
                             const ConstTensor& mean,
                             const ConstTensor& variance,
                             const Tensor& output) = 0;
  virtual void BatchNormBackward(const Norm& norm, const ConstTensor& input,
                                 const ConstTensor& mean,
                                 const ConstTensor& variance,
                                 const ConstTensor& output_gradient,
                                 const NormGradients& gradients) = 0;
  // The same with statistics of rows.
  virtual void LayerNorm(const Norm& norm, const ConstTensor& input,
                         const Tensor& mean, const Tensor& variance,
                         const Tensor& output) = 0;
  virtual void LayerNormBackward(const Norm& norm, const ConstTensor& input,
                                 const ConstTensor& mean,
                                 const ConstTensor& variance,
                                 const ConstTensor& output_gradient,
                                 const NormGradients& gradients) = 0;

  // Over the last dimension. If `causal`, row i of each square of the last two
  // dimensions has its columns above i left out, and 0 there. `output` may be
  // `input`, `input_gradient` may be `output_gradient`.
  virtual void Softmax(bool causal, const ConstTensor& input,
                       const Tensor& output) = 0;
  virtual void SoftmaxBackward(const ConstTensor& output,
                               const ConstTensor& output_gradient,
                               const Tensor& input_gradient) = 0;

  // rows[i] = table[indices[i]]; indices are int32 and below the table's rows.
  // One below 0 stands for a row of zeros.
  virtual void Gather(const ConstTensor& table, const ConstTensor& indices,
                      const Tensor& rows) = 0;
  // table = 0; table[indices[i]] += rows[i], in order, of indices from 0 on.
  virtual void ScatterAdd(const ConstTensor& indices, const ConstTensor& rows,
                          const Tensor& table) = 0;

  // Of each example [fields, values] the dot products of field i with each j <
  // i, i ascending, then j: [fields * (fields - 1) / 2]. Backward overwrites
  // the gradient by the input.
  virtual void DotPairs(const ConstTensor& input, const Tensor& output) = 0;
  virtual void DotPairsBackward(const ConstTensor& input,
                                const ConstTensor& output_gradient,
                                const Tensor& input_gradient) = 0;

  // to[., to_first + j] = from[., from_first + j] for j < columns; the other
  // columns of `to` stay. Both are rows of their first dimension.
  virtual void CopyColumns(const ConstTensor& from, uint64_t from_first,
                           uint64_t columns, const Tensor& to,
                           uint64_t to_first) = 0;

  // out[j] = the sum over rows of in[., j]; `in` is read as rows of `out`. The
  // sums are float32, or what `in` is.
  virtual void SumRows(const ConstTensor& in, const Tensor& out) = 0;
  // out[., j] = in[., j] + row[j]. `out` may be `in`.
  virtual void AddRow(const ConstTensor& in, const ConstTensor& row,
                      const Tensor& out) = 0;
  // out[i, .] = factors[i] in[i, .]. `out` may be `in`.
  virtual void ScaleRows(const ConstTensor& in, const ConstTensor& factors,
                         const Tensor& out) = 0;
  // out = a + factor b. `out` may be either.
  virtual void Add(const ConstTensor& a, double factor, const ConstTensor& b,
                   const Tensor& out) = 0;
  virtual void Apply(Elementwise function, const ConstTensor& in,
                     const Tensor& out) = 0;
  // `in_gradient` may be `out_gradient`.
  virtual void ApplyBackward(Elementwise function, const ConstTensor& in,
                             const ConstTensor& out,
                             const ConstTensor& out_gradient,
                             const Tensor& in_gradient) = 0;

  // Fills `factors`, [examples, width], with 0 or 1 / (1 - rate).
  virtual void Draw(const Drops& drops, const Tensor& factors) = 0;

  // Of rows of outputs, [rows, columns], each row's RowLoss::Numbers, float64
  // [rows, kNumbers], and its derivative times the row's factor, float64
  // [rows]. The target is int32 [rows], labels of which each is below the
  // columns or is ignored, int64 [rows], items of a batch, or float32 as the
  // outputs are. Null data of `gradient`: nobody wants it. A row's loss is
  // finite if its outputs are, but where z - y or its square overflows, and is
  // not finite if one is not.
  virtual void Losses(const RowLoss& loss, const ConstTensor& outputs,
                      const ConstTensor& target, const ConstTensor& factors,
                      const Tensor& gradient, const Tensor& numbers) = 0;

  // Between float32 and one of two bytes.
  virtual void Convert(const ConstTensor& from, const Tensor& to) = 0;
  // values *= factor. `overflow`, one number, becomes 1 if one of them is not
  // finite then, else 0.
  virtual void Unscale(double factor, const Tensor& values,
                       const Tensor& overflow) = 0;

 private:
  ComputeFormat format_ = ComputeFormat::kFp32;
};

}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_DEVICE_H_
