#include "compute/device/cpu_programs.h"

#include <algorithm>

#include "absl/base/casts.h"

#include "base/check.h"

namespace paramd {
namespace {

using dnnl::memory;
using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

constexpr auto kFloat32 = memory::data_type::f32;

int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

OneDnn::Key KeyOf(ProgramKind kind, const Window& w) {
  return {static_cast<uint64_t>(kind),
          w.batch,
          w.height,
          w.width,
          w.channels,
          w.out_height,
          w.out_width,
          w.kernel_height,
          w.kernel_width,
          w.stride_height,
          w.stride_width,
          w.top,
          w.left};
}

// oneDNN names dimensions batch, channels, height, width; they lie as ours.
Desc Images(uint64_t batch, uint64_t height, uint64_t width,
            uint64_t channels) {
  return {{Signed(batch), Signed(channels), Signed(height), Signed(width)},
          kFloat32,
          Tag::nhwc};
}

Desc Inputs(const Window& w) {
  return Images(w.batch, w.height, w.width, w.channels);
}

Desc Outputs(const Window& w, uint64_t channels) {
  return Images(w.batch, w.out_height, w.out_width, channels);
}

Desc Vector(uint64_t size) { return {{Signed(size)}, kFloat32, Tag::a}; }

Desc Rows(uint64_t rows, uint64_t columns) {
  return {{Signed(rows), Signed(columns)}, kFloat32, Tag::ab};
}

memory::dims Kernel(const Window& w) {
  return {Signed(w.kernel_height), Signed(w.kernel_width)};
}

memory::dims Strides(const Window& w) {
  return {Signed(w.stride_height), Signed(w.stride_width)};
}

memory::dims Before(const Window& w) { return {Signed(w.top), Signed(w.left)}; }

int64_t Behind(uint64_t out, uint64_t stride, uint64_t kernel, uint64_t before,
               uint64_t in) {
  return std::max<int64_t>(
      Signed((out - 1) * stride + kernel) - Signed(before + in), 0);
}

memory::dims Behind(const Window& w) {
  return {
      Behind(w.out_height, w.stride_height, w.kernel_height, w.top, w.height),
      Behind(w.out_width, w.stride_width, w.kernel_width, w.left, w.width)};
}

memory::dims KernelDims(const Convolution& c) {
  const int64_t height = Signed(c.window.kernel_height);
  const int64_t width = Signed(c.window.kernel_width);
  const int64_t inputs = Signed(c.group_inputs());
  const int64_t outputs = Signed(c.group_outputs());
  if (c.groups == 1) return {outputs, inputs, height, width};
  return {Signed(c.groups), outputs, inputs, height, width};
}

// As a variable has it.
Desc KernelOf(const Convolution& c) {
  return {KernelDims(c), kFloat32, c.groups == 1 ? Tag::hwio : Tag::hwigo};
}

// As oneDNN likes it best.
Desc AnyKernelOf(const Convolution& c) {
  return {KernelDims(c), kFloat32, Tag::any};
}

dnnl::convolution_forward::primitive_desc ForwardOf(const Convolution& c,
                                                    bool biased,
                                                    OneDnn* onednn) {
  using Forward = dnnl::convolution_forward;
  const Window& w = c.window;
  const auto desc =
      biased ? Forward::desc(dnnl::prop_kind::forward_training,
                             dnnl::algorithm::convolution_direct, Inputs(w),
                             AnyKernelOf(c), Vector(c.outputs),
                             Outputs(w, c.outputs), Strides(w), Before(w),
                             Behind(w))
             : Forward::desc(dnnl::prop_kind::forward_training,
                             dnnl::algorithm::convolution_direct, Inputs(w),
                             AnyKernelOf(c), Outputs(w, c.outputs), Strides(w),
                             Before(w), Behind(w));
  return {desc, onednn->attributes(), onednn->engine()};
}

dnnl::algorithm AlgorithmOf(const Pooling& shape) {
  return shape.kind == Pooling::Kind::kMax
             ? dnnl::algorithm::pooling_max
             : dnnl::algorithm::pooling_avg_exclude_padding;
}

dnnl::pooling_forward::primitive_desc ForwardOf(const Pooling& shape,
                                                OneDnn* onednn) {
  const Window& w = shape.window;
  return {dnnl::pooling_forward::desc(dnnl::prop_kind::forward_training,
                                      AlgorithmOf(shape), Inputs(w),
                                      Outputs(w, w.channels), Strides(w),
                                      Kernel(w), Before(w), Behind(w)),
          onednn->attributes(), onednn->engine()};
}

const dnnl::normalization_flags kScaled =
    dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift;

dnnl::batch_normalization_forward::primitive_desc BatchNormOf(uint64_t rows,
                                                              uint64_t columns,
                                                              double epsilon,
                                                              bool given,
                                                              OneDnn* onednn) {
  return {dnnl::batch_normalization_forward::desc(
              dnnl::prop_kind::forward_training, Images(1, rows, 1, columns),
              static_cast<float>(epsilon),
              given ? kScaled | dnnl::normalization_flags::use_global_stats
                    : kScaled),
          onednn->attributes(), onednn->engine()};
}

dnnl::layer_normalization_forward::primitive_desc LayerNormOf(uint64_t rows,
                                                              uint64_t columns,
                                                              double epsilon,
                                                              OneDnn* onednn) {
  return {dnnl::layer_normalization_forward::desc(
              dnnl::prop_kind::forward_training, Rows(rows, columns),
              Vector(rows), static_cast<float>(epsilon), kScaled),
          onednn->attributes(), onednn->engine()};
}

dnnl::softmax_forward::primitive_desc SoftmaxOf(uint64_t rows, uint64_t columns,
                                                OneDnn* onednn) {
  return {dnnl::softmax_forward::desc(dnnl::prop_kind::forward_training,
                                      Rows(rows, columns), 1),
          onednn->attributes(), onednn->engine()};
}

dnnl::algorithm AlgorithmOf(Elementwise function) {
  switch (function) {
    case Elementwise::kRelu:
      break;
    case Elementwise::kGelu:
      return dnnl::algorithm::eltwise_gelu_erf;
    case Elementwise::kTanh:
      return dnnl::algorithm::eltwise_tanh;
    case Elementwise::kSigmoid:
      return dnnl::algorithm::eltwise_logistic;
  }
  CHECK(false, "relu is a loop of our own");
  return dnnl::algorithm::undef;
}

dnnl::eltwise_forward::primitive_desc ElementwiseOf(Elementwise function,
                                                    uint64_t size,
                                                    OneDnn* onednn) {
  return {dnnl::eltwise_forward::desc(dnnl::prop_kind::forward_training,
                                      AlgorithmOf(function), Vector(size), 0),
          onednn->attributes(), onednn->engine()};
}

}  // namespace

OneDnn::Key KeyOf(ProgramKind kind, const Convolution& shape) {
  OneDnn::Key key = KeyOf(kind, shape.window);
  key.push_back(shape.outputs);
  key.push_back(shape.groups);
  return key;
}

OneDnn::Key KeyOf(ProgramKind kind, const Pooling& shape) {
  OneDnn::Key key = KeyOf(kind, shape.window);
  key.push_back(static_cast<uint64_t>(shape.kind));
  return key;
}

OneDnn::Key KeyOf(ProgramKind kind, uint64_t rows, uint64_t columns,
                  double epsilon) {
  return {static_cast<uint64_t>(kind), rows, columns,
          absl::bit_cast<uint64_t>(epsilon)};
}

void MakeConvolution(const Convolution& shape, bool biased, OneDnn* onednn,
                     OneDnn::Program* program) {
  const auto desc = ForwardOf(shape, biased, onednn);
  const memory input = program->Given(Inputs(shape.window));
  const memory kernel = program->Given(KernelOf(shape));
  const memory output = program->Given(Outputs(shape.window, shape.outputs));
  const memory fast = program->In(kernel, desc.weights_desc());
  if (biased) {
    const memory bias = program->Given(Vector(shape.outputs));
    program->Add(dnnl::convolution_forward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, input},
                  {DNNL_ARG_WEIGHTS, fast},
                  {DNNL_ARG_BIAS, bias},
                  {DNNL_ARG_DST, output}});
  } else {
    program->Add(dnnl::convolution_forward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, input},
                  {DNNL_ARG_WEIGHTS, fast},
                  {DNNL_ARG_DST, output}});
  }
}

void MakeConvolutionBackwardInput(const Convolution& shape, OneDnn* onednn,
                                  OneDnn::Program* program) {
  using Backward = dnnl::convolution_backward_data;
  const Window& w = shape.window;
  const Backward::primitive_desc desc(
      Backward::desc(dnnl::algorithm::convolution_direct, Inputs(w),
                     AnyKernelOf(shape), Outputs(w, shape.outputs), Strides(w),
                     Before(w), Behind(w)),
      onednn->attributes(), onednn->engine(),
      ForwardOf(shape, /*biased=*/false, onednn));
  const memory input_gradient = program->Given(Inputs(w));
  const memory kernel = program->Given(KernelOf(shape));
  const memory output_gradient = program->Given(Outputs(w, shape.outputs));
  const memory fast = program->In(kernel, desc.weights_desc());
  program->Add(Backward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_DIFF_SRC, input_gradient},
                {DNNL_ARG_WEIGHTS, fast},
                {DNNL_ARG_DIFF_DST, output_gradient}});
}

void MakeConvolutionBackwardKernel(const Convolution& shape, OneDnn* onednn,
                                   OneDnn::Program* program) {
  using Backward = dnnl::convolution_backward_weights;
  const Window& w = shape.window;
  const Backward::primitive_desc desc(
      Backward::desc(dnnl::algorithm::convolution_direct, Inputs(w),
                     AnyKernelOf(shape), Outputs(w, shape.outputs), Strides(w),
                     Before(w), Behind(w)),
      onednn->attributes(), onednn->engine(),
      ForwardOf(shape, /*biased=*/false, onednn));
  const memory input = program->Given(Inputs(w));
  const memory kernel_gradient = program->Given(KernelOf(shape));
  const memory output_gradient = program->Given(Outputs(w, shape.outputs));
  const bool as_is = desc.diff_weights_desc() == KernelOf(shape);
  const memory fast =
      as_is ? kernel_gradient : program->Own(desc.diff_weights_desc());
  program->Add(Backward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_DIFF_WEIGHTS, fast},
                {DNNL_ARG_DIFF_DST, output_gradient}});
  if (as_is) return;
  const dnnl::reorder::primitive_desc back(fast, kernel_gradient,
                                           onednn->attributes());
  program->Add(dnnl::reorder(back), back.scratchpad_desc(),
               {{DNNL_ARG_FROM, fast}, {DNNL_ARG_TO, kernel_gradient}});
}

void MakePooling(const Pooling& shape, OneDnn* onednn,
                 OneDnn::Program* program) {
  const auto desc = ForwardOf(shape, onednn);
  const memory input = program->Given(Inputs(shape.window));
  const memory output =
      program->Given(Outputs(shape.window, shape.window.channels));
  if (shape.kind == Pooling::Kind::kAverage) {
    program->Add(dnnl::pooling_forward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
    return;
  }
  const Desc places = desc.workspace_desc();
  CHECK(places.get_size() == output.get_desc().get_size() / sizeof(float),
        "oneDNN keeps the place of a maximum in a byte");
  program->Add(dnnl::pooling_forward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_DST, output},
                {DNNL_ARG_WORKSPACE, program->Given(places)}});
}

void MakePoolingBackward(const Pooling& shape, OneDnn* onednn,
                         OneDnn::Program* program) {
  using Backward = dnnl::pooling_backward;
  const Window& w = shape.window;
  const auto forward = ForwardOf(shape, onednn);
  const Backward::primitive_desc desc(
      Backward::desc(AlgorithmOf(shape), Inputs(w), Outputs(w, w.channels),
                     Strides(w), Kernel(w), Before(w), Behind(w)),
      onednn->attributes(), onednn->engine(), forward);
  const memory input_gradient = program->Given(Inputs(w));
  const memory output_gradient = program->Given(Outputs(w, w.channels));
  if (shape.kind == Pooling::Kind::kAverage) {
    program->Add(Backward(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_SRC, input_gradient},
                  {DNNL_ARG_DIFF_DST, output_gradient}});
    return;
  }
  program->Add(
      Backward(desc), desc.scratchpad_desc(),
      {{DNNL_ARG_DIFF_SRC, input_gradient},
       {DNNL_ARG_DIFF_DST, output_gradient},
       {DNNL_ARG_WORKSPACE, program->Given(forward.workspace_desc())}});
}

void MakeBatchNorm(uint64_t rows, uint64_t columns, double epsilon, bool given,
                   OneDnn* onednn, OneDnn::Program* program) {
  const auto desc = BatchNormOf(rows, columns, epsilon, given, onednn);
  const memory input = program->Given(Images(1, rows, 1, columns));
  const memory mean = program->Given(Vector(columns));
  const memory variance = program->Given(Vector(columns));
  const memory scale = program->Given(Vector(columns));
  const memory shift = program->Given(Vector(columns));
  const memory output = program->Given(Images(1, rows, 1, columns));
  program->Add(dnnl::batch_normalization_forward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_MEAN, mean},
                {DNNL_ARG_VARIANCE, variance},
                {DNNL_ARG_SCALE, scale},
                {DNNL_ARG_SHIFT, shift},
                {DNNL_ARG_DST, output}});
}

void MakeBatchNormBackward(uint64_t rows, uint64_t columns, double epsilon,
                           OneDnn* onednn, OneDnn::Program* program) {
  using Backward = dnnl::batch_normalization_backward;
  const Desc images = Images(1, rows, 1, columns);
  const Backward::primitive_desc desc(
      Backward::desc(dnnl::prop_kind::backward, images, images,
                     static_cast<float>(epsilon), kScaled),
      onednn->attributes(), onednn->engine(),
      BatchNormOf(rows, columns, epsilon, /*given=*/false, onednn));
  const memory input = program->Given(images);
  const memory mean = program->Given(Vector(columns));
  const memory variance = program->Given(Vector(columns));
  const memory scale = program->Given(Vector(columns));
  // No part of the result, here and below; oneDNN wants it all the same.
  const memory shift = program->Given(Vector(columns));
  const memory output_gradient = program->Given(images);
  const memory input_gradient = program->Given(images);
  const memory scale_gradient = program->Given(Vector(columns));
  const memory shift_gradient = program->Given(Vector(columns));
  program->Add(Backward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_MEAN, mean},
                {DNNL_ARG_VARIANCE, variance},
                {DNNL_ARG_SCALE, scale},
                {DNNL_ARG_SHIFT, shift},
                {DNNL_ARG_DIFF_DST, output_gradient},
                {DNNL_ARG_DIFF_SRC, input_gradient},
                {DNNL_ARG_DIFF_SCALE, scale_gradient},
                {DNNL_ARG_DIFF_SHIFT, shift_gradient}});
}

void MakeLayerNorm(uint64_t rows, uint64_t columns, double epsilon,
                   OneDnn* onednn, OneDnn::Program* program) {
  const auto desc = LayerNormOf(rows, columns, epsilon, onednn);
  const memory input = program->Given(Rows(rows, columns));
  const memory mean = program->Given(Vector(rows));
  const memory variance = program->Given(Vector(rows));
  const memory scale = program->Given(Vector(columns));
  const memory shift = program->Given(Vector(columns));
  const memory output = program->Given(Rows(rows, columns));
  program->Add(dnnl::layer_normalization_forward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_MEAN, mean},
                {DNNL_ARG_VARIANCE, variance},
                {DNNL_ARG_SCALE, scale},
                {DNNL_ARG_SHIFT, shift},
                {DNNL_ARG_DST, output}});
}

void MakeLayerNormBackward(uint64_t rows, uint64_t columns, double epsilon,
                           OneDnn* onednn, OneDnn::Program* program) {
  using Backward = dnnl::layer_normalization_backward;
  const Desc matrix = Rows(rows, columns);
  const Backward::primitive_desc desc(
      Backward::desc(dnnl::prop_kind::backward, matrix, matrix, Vector(rows),
                     static_cast<float>(epsilon), kScaled),
      onednn->attributes(), onednn->engine(),
      LayerNormOf(rows, columns, epsilon, onednn));
  const memory input = program->Given(matrix);
  const memory mean = program->Given(Vector(rows));
  const memory variance = program->Given(Vector(rows));
  const memory scale = program->Given(Vector(columns));
  const memory shift = program->Given(Vector(columns));
  const memory output_gradient = program->Given(matrix);
  const memory input_gradient = program->Given(matrix);
  const memory scale_gradient = program->Given(Vector(columns));
  const memory shift_gradient = program->Given(Vector(columns));
  program->Add(Backward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_MEAN, mean},
                {DNNL_ARG_VARIANCE, variance},
                {DNNL_ARG_SCALE, scale},
                {DNNL_ARG_SHIFT, shift},
                {DNNL_ARG_DIFF_DST, output_gradient},
                {DNNL_ARG_DIFF_SRC, input_gradient},
                {DNNL_ARG_DIFF_SCALE, scale_gradient},
                {DNNL_ARG_DIFF_SHIFT, shift_gradient}});
}

void MakeSoftmax(uint64_t rows, uint64_t columns, OneDnn* onednn,
                 OneDnn::Program* program) {
  const auto desc = SoftmaxOf(rows, columns, onednn);
  const memory input = program->Given(Rows(rows, columns));
  const memory output = program->Given(Rows(rows, columns));
  program->Add(dnnl::softmax_forward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
}

void MakeSoftmaxBackward(uint64_t rows, uint64_t columns, OneDnn* onednn,
                         OneDnn::Program* program) {
  using Backward = dnnl::softmax_backward;
  const Desc matrix = Rows(rows, columns);
  const Backward::primitive_desc desc(Backward::desc(matrix, matrix, 1),
                                      onednn->attributes(), onednn->engine(),
                                      SoftmaxOf(rows, columns, onednn));
  const memory output = program->Given(matrix);
  const memory output_gradient = program->Given(matrix);
  const memory input_gradient = program->Given(matrix);
  program->Add(Backward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_DST, output},
                {DNNL_ARG_DIFF_DST, output_gradient},
                {DNNL_ARG_DIFF_SRC, input_gradient}});
}

void MakeElementwise(Elementwise function, uint64_t size, OneDnn* onednn,
                     OneDnn::Program* program) {
  const auto desc = ElementwiseOf(function, size, onednn);
  const memory input = program->Given(Vector(size));
  const memory output = program->Given(Vector(size));
  program->Add(dnnl::eltwise_forward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input}, {DNNL_ARG_DST, output}});
}

void MakeElementwiseBackward(Elementwise function, uint64_t size,
                             OneDnn* onednn, OneDnn::Program* program) {
  using Backward = dnnl::eltwise_backward;
  const Backward::primitive_desc desc(
      Backward::desc(AlgorithmOf(function), Vector(size), Vector(size), 0),
      onednn->attributes(), onednn->engine(),
      ElementwiseOf(function, size, onednn));
  const memory input = program->Given(Vector(size));
  const memory output_gradient = program->Given(Vector(size));
  const memory input_gradient = program->Given(Vector(size));
  program->Add(Backward(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_DIFF_DST, output_gradient},
                {DNNL_ARG_DIFF_SRC, input_gradient}});
}

}  // namespace paramd
