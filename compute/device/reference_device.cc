#include "compute/device/reference_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/random.h"
#include "compute/device/float_type.h"
#include "tensor/number_format.h"

namespace paramd {
namespace {

constexpr std::align_val_t kAlignment{64};

template <class T>
void MultiplyOne(const Product& p, const T* a, const T* b, T* c) {
  for (uint64_t i = 0; i < p.m; ++i) {
    for (uint64_t j = 0; j < p.n; ++j) {
      T sum = 0;
      for (uint64_t k = 0; k < p.k; ++k) {
        sum += a[p.transpose_a ? k * p.a_row() + i : i * p.a_row() + k] *
               b[p.transpose_b ? j * p.b_row() + k : k * p.b_row() + j];
      }
      c[i * p.c_row() + j] = static_cast<T>(p.scale) * sum;
    }
  }
}

template <class T>
T Value(Elementwise function, T x) {
  switch (function) {
    case Elementwise::kRelu:
      return x < 0 ? T(0) : x;
    case Elementwise::kGelu:
      return x * T(0.5) * (1 + std::erf(x * T(M_SQRT1_2)));
    case Elementwise::kTanh:
      return std::tanh(x);
    case Elementwise::kSigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return x;
}

// `y` is Value(x).
template <class T>
T Derivative(Elementwise function, T x, T y) {
  switch (function) {
    case Elementwise::kRelu:
      return y == 0 ? T(0) : T(1);
    case Elementwise::kGelu:
      return T(0.5) * (1 + std::erf(x * T(M_SQRT1_2))) +
             x * std::exp(-x * x / 2) * T(0.5 * M_2_SQRTPI * M_SQRT1_2);
    case Elementwise::kTanh:
      return 1 - y * y;
    case Elementwise::kSigmoid:
      return y * (1 - y);
  }
  return 0;
}

}  // namespace

Device::Memory ReferenceDevice::Allocate(size_t bytes) {
  return Memory(::operator new(std::max<size_t>(bytes, 1), kAlignment),
                [](void* data) { ::operator delete(data, kAlignment); });
}

void ReferenceDevice::Copy(const void* from, size_t bytes, void* to) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

void ReferenceDevice::Multiply(const Product& p, const ConstTensor& a,
                               const ConstTensor& b, const Tensor& c) {
  WithFloatType(c.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from_a = a.values<T>();
    const auto from_b = b.values<T>();
    const auto to = c.values<T>();
    for (uint64_t o = 0; o < p.outer; ++o) {
      for (uint64_t i = 0; i < p.inner; ++i) {
        MultiplyOne<T>(p, from_a.data() + o * p.a.outer + i * p.a.inner,
                       from_b.data() + o * p.b.outer + i * p.b.inner,
                       to.data() + o * p.c.outer + i * p.c.inner);
      }
    }
  });
}

void ReferenceDevice::Gather(const ConstTensor& table,
                             const ConstTensor& indices, const Tensor& rows) {
  const auto places = indices.values<int32_t>();
  if (places.empty()) return;
  const uint64_t width = rows.size() / places.size();
  WithFloatType(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = table.values<T>();
    const auto to = rows.values<T>();
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0) {
        std::fill_n(to.data() + i * width, width, T(0));
        continue;
      }
      const uint64_t row = static_cast<uint64_t>(places[i]);
      CHECK((row + 1) * width <= from.size(),
            "an index is below the rows of its table");
      std::copy_n(from.data() + row * width, width, to.data() + i * width);
    }
  });
}

void ReferenceDevice::ScatterAdd(const ConstTensor& indices,
                                 const ConstTensor& rows, const Tensor& table) {
  const auto places = indices.values<int32_t>();
  WithFloatType(rows.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = rows.values<T>();
    const auto to = table.values<T>();
    std::fill(to.begin(), to.end(), T(0));
    const uint64_t width = places.empty() ? 0 : rows.size() / places.size();
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i] < 0) continue;
      T* sum = to.data() + static_cast<uint64_t>(places[i]) * width;
      for (uint64_t j = 0; j < width; ++j) sum[j] += from[i * width + j];
    }
  });
}

void ReferenceDevice::DotPairs(const ConstTensor& input, const Tensor& output) {
  const uint64_t fields = input.dims[1];
  const uint64_t width = input.dims[2];
  WithFloatType(output.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = input.values<T>();
    T* to = output.values<T>().data();
    for (size_t example = 0; example < from.size(); example += fields * width) {
      const T* const x = from.data() + example;
      for (uint64_t i = 1; i < fields; ++i) {
        for (uint64_t j = 0; j < i; ++j, ++to) {
          *to = 0;
          for (uint64_t w = 0; w < width; ++w) {
            *to += x[i * width + w] * x[j * width + w];
          }
        }
      }
    }
  });
}

void ReferenceDevice::DotPairsBackward(const ConstTensor& input,
                                       const ConstTensor& output_gradient,
                                       const Tensor& input_gradient) {
  const uint64_t fields = input.dims[1];
  const uint64_t width = input.dims[2];
  WithFloatType(input.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = input.values<T>();
    const T* gradient = output_gradient.values<T>().data();
    const auto to = input_gradient.values<T>();
    std::fill(to.begin(), to.end(), T(0));
    for (size_t example = 0; example < from.size(); example += fields * width) {
      const T* const x = from.data() + example;
      T* const dx = to.data() + example;
      for (uint64_t i = 1; i < fields; ++i) {
        for (uint64_t j = 0; j < i; ++j, ++gradient) {
          for (uint64_t w = 0; w < width; ++w) {
            dx[i * width + w] += *gradient * x[j * width + w];
            dx[j * width + w] += *gradient * x[i * width + w];
          }
        }
      }
    }
  });
}

void ReferenceDevice::CopyColumns(const ConstTensor& from, uint64_t from_first,
                                  uint64_t columns, const Tensor& to,
                                  uint64_t to_first) {
  const uint64_t rows = to.dims[0];
  if (rows == 0) return;
  WithFloatType(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto source = from.values<T>();
    const auto target = to.values<T>();
    const uint64_t from_width = source.size() / rows;
    const uint64_t to_width = target.size() / rows;
    for (uint64_t row = 0; row < rows; ++row) {
      std::copy_n(source.begin() + row * from_width + from_first, columns,
                  target.begin() + row * to_width + to_first);
    }
  });
}

void ReferenceDevice::SumRows(const ConstTensor& in, const Tensor& out) {
  WithFloatType(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = in.values<T>();
    const auto to = out.values<T>();
    std::fill(to.begin(), to.end(), T(0));
    for (size_t i = 0; i < from.size(); i += to.size()) {
      for (size_t j = 0; j < to.size(); ++j) to[j] += from[i + j];
    }
  });
}

void ReferenceDevice::AddRow(const ConstTensor& in, const ConstTensor& row,
                             const Tensor& out) {
  WithFloatType(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = in.values<T>();
    const auto add = row.values<T>();
    const auto to = out.values<T>();
    for (size_t i = 0; i < from.size(); i += add.size()) {
      for (size_t j = 0; j < add.size(); ++j) to[i + j] = from[i + j] + add[j];
    }
  });
}

void ReferenceDevice::ScaleRows(const ConstTensor& in,
                                const ConstTensor& factors, const Tensor& out) {
  WithFloatType(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = in.values<T>();
    const auto factor = factors.values<T>();
    const auto to = out.values<T>();
    const size_t width = factor.empty() ? 0 : from.size() / factor.size();
    for (size_t i = 0; i < factor.size(); ++i) {
      for (size_t j = i * width; j < (i + 1) * width; ++j) {
        to[j] = factor[i] * from[j];
      }
    }
  });
}

void ReferenceDevice::Add(const ConstTensor& a, double factor,
                          const ConstTensor& b, const Tensor& out) {
  WithFloatType(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto left = a.values<T>();
    const auto right = b.values<T>();
    const auto to = out.values<T>();
    const T f = static_cast<T>(factor);
    for (size_t i = 0; i < to.size(); ++i) to[i] = left[i] + f * right[i];
  });
}

void ReferenceDevice::Apply(Elementwise function, const ConstTensor& in,
                            const Tensor& out) {
  WithFloatType(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto from = in.values<T>();
    const auto to = out.values<T>();
    for (size_t i = 0; i < to.size(); ++i) to[i] = Value<T>(function, from[i]);
  });
}

void ReferenceDevice::ApplyBackward(Elementwise function, const ConstTensor& in,
                                    const ConstTensor& out,
                                    const ConstTensor& out_gradient,
                                    const Tensor& in_gradient) {
  WithFloatType(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto x = in.values<T>();
    const auto y = out.values<T>();
    const auto from = out_gradient.values<T>();
    const auto to = in_gradient.values<T>();
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = from[i] * Derivative<T>(function, x[i], y[i]);
    }
  });
}

void ReferenceDevice::Draw(const Drops& drops, const Tensor& factors) {
  const CounterRandom random(drops.key);
  // Two numbers of 32 bits are drawn at a time.
  const uint64_t pairs = (drops.width + 1) / 2;
  const uint64_t limit = static_cast<uint64_t>(drops.rate * 4294967296.0);
  WithFloatType(factors.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T kept = static_cast<T>(1 / (1 - drops.rate));
    const auto to = factors.values<T>();
    T* out = to.data();
    for (uint64_t i = 0; out != to.data() + to.size(); ++i) {
      const uint64_t offset =
          drops.offsets == nullptr ? drops.first + i : drops.offsets[i];
      const uint64_t first = offset * pairs;
      for (uint64_t j = 0; j < drops.width; j += 2) {
        const uint64_t bits = random.Bits(first + j / 2);
        out[j] = (bits & 0xffffffff) < limit ? T(0) : kept;
        if (j + 1 < drops.width) out[j + 1] = bits >> 32 < limit ? T(0) : kept;
      }
      out += drops.width;
    }
  });
}

void ReferenceDevice::Convert(const ConstTensor& from, const Tensor& to) {
  const auto format_of = [](DType dtype) {
    return dtype == DType::kBFloat16 ? NumberFormat::kBf16
                                     : NumberFormat::kFp16;
  };
  if (IsHalf(to.dtype)) {
    EncodeNumbers(format_of(to.dtype), from.values<float>().data(), from.size(),
                  static_cast<std::byte*>(to.data));
  } else {
    DecodeNumbers(format_of(from.dtype),
                  static_cast<const std::byte*>(from.data), from.size(),
                  to.values<float>().data());
  }
}

void ReferenceDevice::Unscale(double factor, const Tensor& values,
                              const Tensor& overflow) {
  WithFloatType(values.dtype, [&](auto zero) {
    using T = decltype(zero);
    bool finite = true;
    for (T& value : values.values<T>()) {
      value *= static_cast<T>(factor);
      finite = finite && std::isfinite(value);
    }
    overflow.values<T>()[0] = finite ? 0 : 1;
  });
}

}  // namespace paramd
