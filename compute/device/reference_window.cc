// Convolution and pooling.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compute/device/float_type.h"
#include "compute/device/reference_device.h"

namespace paramd {
namespace {

using Places = absl::Span<const uint8_t>;

// Calls f(output place, input place, place in the window) for each pair of
// image places that a window connects, image by image, row by row; places count
// pixels.
template <class Function>
void ForEachPair(const Window& w, Function f) {
  uint64_t out = 0;
  for (uint64_t n = 0; n < w.batch; ++n) {
    for (uint64_t y = 0; y < w.out_height; ++y) {
      for (uint64_t x = 0; x < w.out_width; ++x, ++out) {
        for (uint64_t i = 0; i < w.kernel_height; ++i) {
          for (uint64_t j = 0; j < w.kernel_width; ++j) {
            // Above the image wraps around to far below it.
            const uint64_t row = y * w.stride_height + i - w.top;
            const uint64_t column = x * w.stride_width + j - w.left;
            if (row >= w.height || column >= w.width) continue;
            f(out, (n * w.height + row) * w.width + column,
              i * w.kernel_width + j);
          }
        }
      }
    }
  }
}

// Calls f(input element, kernel element, output element) for each product of a
// convolution.
template <class Function>
void ForEachProduct(const Convolution& c, Function f) {
  ForEachPair(c.window, [&](uint64_t out, uint64_t in, uint64_t place) {
    for (uint64_t o = 0; o < c.outputs; ++o) {
      const uint64_t first = o / c.group_outputs() * c.group_inputs();
      for (uint64_t i = 0; i < c.group_inputs(); ++i) {
        f(in * c.window.channels + first + i,
          (place * c.group_inputs() + i) * c.outputs + o, out * c.outputs + o);
      }
    }
  });
}

uint64_t Inside(const Window& w, uint64_t y, uint64_t x) {
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

// Values that the window of this output place covers.
uint64_t Inside(const Window& w, uint64_t out) {
  return Inside(w, out / w.out_width % w.out_height, out % w.out_width);
}

template <class T>
bool HasValue(const T* x, uint64_t count) {
  return std::any_of(x, x + count, [](T value) { return value != 0; });
}

// What a sum over so many places is divided by.
template <class T>
T DivisorOf(Bag kind, T count) {
  return kind == Bag::kMean    ? count
         : kind == Bag::kSqrtN ? std::sqrt(count)
                               : T(1);
}

}  // namespace

void ReferenceDevice::Convolve(const Convolution& shape,
                               const ConstTensor& input,
                               const ConstTensor& kernel,
                               const ConstTensor& bias, const Tensor& output) {
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto w = kernel.values<T>();
    const auto y = output.values<T>();
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = bias.data == nullptr ? T(0) : bias.values<T>()[i % shape.outputs];
    }
    ForEachProduct(shape, [&](uint64_t in, uint64_t weight, uint64_t out) {
      y[out] += x[in] * w[weight];
    });
  });
}

void ReferenceDevice::ConvolveBackwardInput(const Convolution& shape,
                                            const ConstTensor& kernel,
                                            const ConstTensor& output_gradient,
                                            const Tensor& input_gradient) {
  WithFloatType(input_gradient.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto w = kernel.values<T>();
    const auto dy = output_gradient.values<T>();
    const auto dx = input_gradient.values<T>();
    std::fill(dx.begin(), dx.end(), T(0));
    ForEachProduct(shape, [&](uint64_t in, uint64_t weight, uint64_t out) {
      dx[in] += dy[out] * w[weight];
    });
  });
}

void ReferenceDevice::ConvolveBackwardKernel(const Convolution& shape,
                                             const ConstTensor& input,
                                             const ConstTensor& output_gradient,
                                             const Tensor& kernel_gradient) {
  WithFloatType(kernel_gradient.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto dy = output_gradient.values<T>();
    const auto dw = kernel_gradient.values<T>();
    std::fill(dw.begin(), dw.end(), T(0));
    ForEachProduct(shape, [&](uint64_t in, uint64_t weight, uint64_t out) {
      dw[weight] += dy[out] * x[in];
    });
  });
}

void ReferenceDevice::Pool(const Pooling& shape, const ConstTensor& input,
                           const Tensor& output, const Tensor& places) {
  const uint64_t channels = shape.window.channels;
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto y = output.values<T>();
    if (shape.kind == Pooling::Kind::kAverage) {
      std::fill(y.begin(), y.end(), T(0));
      ForEachPair(shape.window, [&](uint64_t out, uint64_t in, uint64_t) {
        const T count = static_cast<T>(Inside(shape.window, out));
        for (uint64_t c = 0; c < channels; ++c) {
          y[out * channels + c] += x[in * channels + c] / count;
        }
      });
      return;
    }
    const auto found = places.values<uint8_t>();
    std::fill(y.begin(), y.end(), -std::numeric_limits<T>::infinity());
    std::fill(found.begin(), found.end(), uint8_t{0});
    ForEachPair(shape.window, [&](uint64_t out, uint64_t in, uint64_t place) {
      for (uint64_t c = 0; c < channels; ++c) {
        const T value = x[in * channels + c];
        const uint64_t at = out * channels + c;
        // NaN is kept, so a broken input reaches the loss.
        if (value <= y[at] || y[at] != y[at]) continue;
        y[at] = value;
        found[at] = static_cast<uint8_t>(place);
      }
    });
  });
}

void ReferenceDevice::PoolBackward(const Pooling& shape,
                                   const ConstTensor& places,
                                   const ConstTensor& output_gradient,
                                   const Tensor& input_gradient) {
  const uint64_t channels = shape.window.channels;
  const bool is_max = shape.kind == Pooling::Kind::kMax;
  const Places found = is_max ? places.values<uint8_t>() : Places();
  WithFloatType(input_gradient.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto dy = output_gradient.values<T>();
    const auto dx = input_gradient.values<T>();
    std::fill(dx.begin(), dx.end(), T(0));
    ForEachPair(shape.window, [&](uint64_t out, uint64_t in, uint64_t place) {
      const T count = is_max ? T(1) : static_cast<T>(Inside(shape.window, out));
      for (uint64_t c = 0; c < channels; ++c) {
        const uint64_t at = out * channels + c;
        if (is_max && found[at] != place) continue;
        dx[in * channels + c] += dy[at] / count;
      }
    });
  });
}

void ReferenceDevice::PoolAll(Pooling::Kind kind, const ConstTensor& input,
                              const Tensor& output) {
  const uint64_t channels = output.dims.back();
  if (output.size() == 0) return;
  const uint64_t places = input.size() / output.size();
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = input.values<T>().data();
    T* y = output.values<T>().data();
    for (uint64_t n = 0; n < output.size() / channels; ++n, y += channels) {
      std::copy_n(x, channels, y);
      x += channels;
      for (uint64_t p = 1; p < places; ++p, x += channels) {
        for (uint64_t c = 0; c < channels; ++c) {
          if (kind == Pooling::Kind::kAverage) {
            y[c] += x[c];
          } else if (!(x[c] <= y[c])) {
            y[c] = x[c];
          }
        }
      }
      if (kind == Pooling::Kind::kMax) continue;
      for (uint64_t c = 0; c < channels; ++c) y[c] /= static_cast<T>(places);
    }
  });
}

void ReferenceDevice::PoolAllBackward(Pooling::Kind kind,
                                      const ConstTensor& input,
                                      const ConstTensor& output,
                                      const ConstTensor& output_gradient,
                                      const Tensor& input_gradient) {
  const uint64_t channels = output.dims.back();
  if (output.size() == 0) return;
  const uint64_t places = input.size() / output.size();
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = input.values<T>();
    const auto y = output.values<T>();
    const auto dy = output_gradient.values<T>();
    const auto dx = input_gradient.values<T>();
    for (uint64_t n = 0; n < output.size() / channels; ++n) {
      for (uint64_t c = 0; c < channels; ++c) {
        const uint64_t at = n * channels + c;
        bool found = false;  // Of equal maxima, the first.
        for (uint64_t p = 0; p < places; ++p) {
          const uint64_t in = (n * places + p) * channels + c;
          if (kind == Pooling::Kind::kAverage) {
            dx[in] = dy[at] / static_cast<T>(places);
          } else {
            dx[in] = !found && x[in] == y[at] ? dy[at] : T(0);
            found = found || x[in] == y[at];
          }
        }
      }
    }
  });
}

void ReferenceDevice::PoolBag(Bag kind, const ConstTensor& input,
                              const Tensor& output) {
  const uint64_t places = input.dims[1];
  const uint64_t width = input.dims[2];
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = input.values<T>().data();
    const auto to = output.values<T>();
    std::fill(to.begin(), to.end(), T(0));
    for (T* y = to.data(); y != to.data() + to.size(); y += width) {
      T count = 0;
      for (uint64_t p = 0; p < places; ++p, x += width) {
        if (!HasValue(x, width)) continue;
        for (uint64_t v = 0; v < width; ++v) {
          if (kind != Bag::kMax) {
            y[v] += x[v];
          } else if (count == 0 || !(x[v] <= y[v])) {
            y[v] = x[v];
          }
        }
        ++count;
      }
      if (count == 0) continue;
      for (uint64_t v = 0; v < width; ++v) y[v] /= DivisorOf(kind, count);
    }
  });
}

void ReferenceDevice::PoolBagBackward(Bag kind, const ConstTensor& input,
                                      const ConstTensor& output,
                                      const ConstTensor& output_gradient,
                                      const Tensor& input_gradient) {
  const uint64_t places = input.dims[1];
  const uint64_t width = input.dims[2];
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = input.values<T>();
    const T* y = output.values<T>().data();
    const T* dy = output_gradient.values<T>().data();
    const auto to = input_gradient.values<T>();
    std::fill(to.begin(), to.end(), T(0));
    for (size_t example = 0; example < from.size(); example += places * width) {
      const T* const x = from.data() + example;
      T* const dx = to.data() + example;
      T count = 0;
      for (uint64_t p = 0; p < places; ++p) {
        if (HasValue(x + p * width, width)) ++count;
      }
      for (uint64_t v = 0; v < width; ++v) {
        for (uint64_t at = v; at < places * width; at += width) {
          if (kind != Bag::kSum && !HasValue(x + at - v, width)) continue;
          if (kind == Bag::kMax && x[at] != y[v]) continue;
          dx[at] = dy[v] / DivisorOf(kind, count);
          if (kind == Bag::kMax) break;  // Of equal ones the first.
        }
      }
      y += width;
      dy += width;
    }
  });
}

}  // namespace paramd
