#ifndef PARAMD_COMPUTE_DEVICE_WINDOW_KERNELS_H_
#define PARAMD_COMPUTE_DEVICE_WINDOW_KERNELS_H_

// Kernels of convolution and pooling: see kernels.h.
#include <math.h>

#include <cstdint>

#include "compute/device/kernels.h"
#include "compute/device/shapes.h"

namespace paramd {
namespace kernels {

// A place of an image, and a channel there.
struct Place {
  uint64_t image;
  uint64_t row;
  uint64_t column;
  uint64_t channel;

  PARAMD_KERNEL static Place Of(uint64_t i, uint64_t height, uint64_t width,
                                uint64_t channels) {
    const uint64_t pixel = i / channels;
    return {pixel / (height * width), pixel / width % height, pixel % width,
            i % channels};
  }
};

// The output place whose window has input place `at` at `offset` of it, or one
// beyond all of them. Along one axis.
PARAMD_KERNEL inline uint64_t OutputAt(uint64_t at, uint64_t before,
                                       uint64_t offset, uint64_t stride) {
  const uint64_t distance = at + before - offset;  // May wrap around.
  return at + before < offset || distance % stride != 0 ? ~uint64_t{0}
                                                        : distance / stride;
}

// Values of the image that an output's window covers.
PARAMD_KERNEL inline uint64_t CountInside(const Window& w, uint64_t y,
                                          uint64_t x) {
  uint64_t rows = 0;
  uint64_t columns = 0;
  for (uint64_t i = 0; i < w.kernel_height; ++i) {
    rows += y * w.stride_height + i - w.top < w.height;
  }
  for (uint64_t j = 0; j < w.kernel_width; ++j) {
    columns += x * w.stride_width + j - w.left < w.width;
  }
  return rows * columns;
}

// Element i of the output.
template <class T>
struct Pool {
  Window w;
  bool is_max;
  const T* in;
  T* out;
  uint8_t* places;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const Place at = Place::Of(i, w.out_height, w.out_width, w.channels);
    float best = -INFINITY;
    float sum = 0;
    uint64_t place = 0;
    const float count = static_cast<float>(CountInside(w, at.row, at.column));
    for (uint64_t k = 0; k < w.kernel_height * w.kernel_width; ++k) {
      // Above the image wraps around to far below it.
      const uint64_t row =
          at.row * w.stride_height + k / w.kernel_width - w.top;
      const uint64_t column =
          at.column * w.stride_width + k % w.kernel_width - w.left;
      if (row >= w.height || column >= w.width) continue;
      const float value =
          in[((at.image * w.height + row) * w.width + column) * w.channels +
             at.channel];
      sum += value / count;
      if (value <= best || best != best) continue;
      best = value;
      place = k;
    }
    out[i] = is_max ? best : sum;
    if (is_max) places[i] = static_cast<uint8_t>(place);
  }
};

// Element i of the input: the sum over outputs in order.
template <class T>
struct PoolBackward {
  Window w;
  bool is_max;
  const uint8_t* places;
  const T* out_gradient;
  T* in_gradient;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const Place at = Place::Of(i, w.height, w.width, w.channels);
    float sum = 0;
    for (uint64_t k = w.kernel_height * w.kernel_width; k-- > 0;) {
      const uint64_t y =
          OutputAt(at.row, w.top, k / w.kernel_width, w.stride_height);
      const uint64_t x =
          OutputAt(at.column, w.left, k % w.kernel_width, w.stride_width);
      if (y >= w.out_height || x >= w.out_width) continue;
      const uint64_t out =
          ((at.image * w.out_height + y) * w.out_width + x) * w.channels +
          at.channel;
      if (!is_max) {
        sum += out_gradient[out] / static_cast<float>(CountInside(w, y, x));
      } else if (places[out] == k) {
        sum += out_gradient[out];
      }
    }
    in_gradient[i] = sum;
  }
};

// Element i of the output, [batch, channels].
template <class T>
struct PoolAll {
  bool is_max;
  uint64_t places;
  uint64_t channels;
  const T* in;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const T* x = in + i / channels * places * channels + i % channels;
    float value = x[0];
    for (uint64_t p = 1; p < places; ++p) {
      const float next = x[p * channels];
      value = !is_max ? value + next : next <= value ? value : next;
    }
    out[i] = is_max ? value : value / static_cast<float>(places);
  }
};

template <class T>
struct PoolAllBackward {
  bool is_max;
  uint64_t places;
  uint64_t channels;
  const T* in;
  const T* out;
  const T* out_gradient;
  T* in_gradient;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t first = i / channels * places * channels + i % channels;
    bool found = false;  // Of equal maxima, the first.
    for (uint64_t p = 0; p < places; ++p) {
      const uint64_t at = first + p * channels;
      const bool takes = is_max && !found && in[at] == out[i];
      found = found || takes;
      in_gradient[at] = !is_max ? out_gradient[i] / static_cast<float>(places)
                        : takes ? out_gradient[i]
                                : 0.0f;
    }
  }
};

// Windows of images as rows of a matrix for each group, [groups, output places,
// kernel places x channels of a group], of the images from `first` on. A
// convolution is their product with the kernel.
template <class T, class U>
struct Unfold {
  Window w;
  uint64_t groups;
  uint64_t first;
  uint64_t rows;  // Output places of the images.
  const T* in;
  U* unfolded;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t channels = w.channels / groups;
    const uint64_t width = w.kernel_height * w.kernel_width * channels;
    const uint64_t group = i / (rows * width);
    const Place out = Place::Of(i / width % rows, w.out_height, w.out_width, 1);
    const uint64_t k = i % width / channels;
    const uint64_t row = out.row * w.stride_height + k / w.kernel_width - w.top;
    const uint64_t column =
        out.column * w.stride_width + k % w.kernel_width - w.left;
    const uint64_t image = first + out.image;
    unfolded[i] =
        row >= w.height || column >= w.width
            ? 0.0f
            : in[((image * w.height + row) * w.width + column) * w.channels +
                 group * channels + i % channels];
  }
};

// The other way, each element of the input the sum of its places there, in the
// order of outputs. Element i of the images from `first` on.
template <class T>
struct Fold {
  Window w;
  uint64_t groups;
  uint64_t first;
  uint64_t rows;
  const float* unfolded;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t channels = w.channels / groups;
    const uint64_t width = w.kernel_height * w.kernel_width * channels;
    const Place at = Place::Of(i, w.height, w.width, w.channels);
    const uint64_t group = at.channel / channels;
    float sum = 0;
    for (uint64_t k = w.kernel_height * w.kernel_width; k-- > 0;) {
      const uint64_t y =
          OutputAt(at.row, w.top, k / w.kernel_width, w.stride_height);
      const uint64_t x =
          OutputAt(at.column, w.left, k % w.kernel_width, w.stride_width);
      if (y >= w.out_height || x >= w.out_width) continue;
      const uint64_t row = (at.image * w.out_height + y) * w.out_width + x;
      sum += unfolded[(group * rows + row) * width + k * channels +
                      at.channel % channels];
    }
    out[first * w.height * w.width * w.channels + i] = sum;
  }
};

// A grid of matrices of zeros: element i of [outer, inner, m, n].
template <class T>
struct ZeroGrid {
  uint64_t inner;
  uint64_t m;
  uint64_t n;
  Product::Strides strides;
  T* out;
  PARAMD_KERNEL void operator()(uint64_t i) const {
    const uint64_t matrix = i / (m * n);
    const uint64_t row = strides.row != 0 ? strides.row : n;
    out[matrix / inner * strides.outer + matrix % inner * strides.inner +
        i / n % m * row + i % n] = 0;
  }
};

}  // namespace kernels
}  // namespace paramd

#endif  // PARAMD_COMPUTE_DEVICE_WINDOW_KERNELS_H_
