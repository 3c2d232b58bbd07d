#ifndef PARAMD_COMPUTE_QUANTIZED_AFFINE_H_
#define PARAMD_COMPUTE_QUANTIZED_AFFINE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace paramd {

// Between which numbers values lie. Both are finite.
struct FloatRange {
  float min = 0;
  float max = 0;
};

// Numbers as integers from 0 to 255: q = round(x / scale) + zero_point, halves
// to the even one, and what lies outside of the range becomes its end. 0 is
// exact, so that zeros around an image are.
struct Affine {
  float scale = 1;
  uint8_t zero_point = 0;

  bool operator==(const Affine&) const = default;
};

// Of the least and the greatest of the values, NaN aside; 0 to 0 of none.
FloatRange RangeOf(absl::Span<const float> values);

// That of a range, which is widened to have 0 in it. Of nothing but zeros, or
// of numbers that no scale tells from 0, the scale is 1.
Affine AffineOf(FloatRange range);

// Overwrites `out`, which is as long. NaN becomes the lowest number. Multiplies
// by 1 / scale, as processors do it fast.
void QuantizeValues(const Affine& affine, absl::Span<const float> values,
                    uint8_t* out);
// What it is compared with: the same bits.
void QuantizeValuesPlainly(const Affine& affine, absl::Span<const float> values,
                           uint8_t* out);

// The most of an integer of 16 bits; the least is its negative.
constexpr int kMostInt16 = 32767;

// The scale of a range as integers from -kMostInt16 to kMostInt16, of which 0
// is 0: x = scale * q. As above where the range says nothing.
float Int16ScaleOf(FloatRange range);

// As above, with q = round(x / scale). NaN becomes the lowest one.
void QuantizeValues(float scale, absl::Span<const float> values, int16_t* out);
void QuantizeValuesPlainly(float scale, absl::Span<const float> values,
                           int16_t* out);

// Weights as integers from -most to most: w = scale * q.
struct QuantizedWeights {
  std::vector<int8_t> values;
  std::vector<float> scales;  // Of each output channel, or one of all.
};

// Symmetric, of weights whose last dimension is the output channels; a scale of
// each, or one of all. Each is within half a scale of the weight, but for the
// rounding of the scale. REQUIRES: they are finite, 0 < most <= 127.
QuantizedWeights QuantizeWeights(absl::Span<const float> weights,
                                 uint64_t channels, bool per_channel, int most);

// Numbers as what integers stand for: what a network that is trained to be
// quantised computes with ("fake quantisation"; Jacob et al., CVPR 2018,
// section 3). Bit by bit scale * (q - zero_point) with q of QuantizeValues, but
// that what is not finite becomes NaN, as in IntegerRun. `out`, as long, may be
// the values.
void FakeQuantizeValues(const Affine& affine, absl::Span<const float> values,
                        float* out);
// Its derivative by the straight-through estimator (Bengio et al., arXiv
// 1308.3432): of values inside of the range that the integers stand for the
// gradient passes, of others it becomes 0. REQUIRES: as many of both.
void PassStraightThrough(const Affine& affine, absl::Span<const float> values,
                         absl::Span<float> gradients);

// Bit by bit scale * q of QuantizeWeights, with a scale of each channel, of
// which there are as many as `scales`, which are overwritten. `out` is as long
// as the weights. No weight is outside of the range, so the gradient passes.
void FakeQuantizeWeights(absl::Span<const float> weights, int most,
                         absl::Span<float> scales, float* out);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_AFFINE_H_
