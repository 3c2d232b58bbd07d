#ifndef PARAMD_COMPUTE_QUANTIZED_INTEGER_PRODUCT_H_
#define PARAMD_COMPUTE_QUANTIZED_INTEGER_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

#include "compute/device/shapes.h"

namespace paramd {

// What a dense layer or a convolution computes of integers by weights from -127
// to 127: of 8 bits, from 0 to 255, or of 16, from -32767 to 32767. With the
// sum of products s of an output of channel c, which is exact, in 32 bits or in
// 64:
//
//   t = (float(s) + bias[c]) * scale[c], and 0 below 0 if `relu`
//
// which is the output, or rounded, halves to the even number, and cut to 0 to
// 255, or to -32767 to 32767. All of it in float32, in this order: so every
// kernel gives the same bits, of 16 bits always, and of 8 while |s| is below
// 2^24, and above it numbers that are apart by the roundings of s to float32,
// of one part in 2^24.
struct IntegerProduct {
  enum class Result : uint8_t {
    kIntegers,  // As the input: uint8, or int16.
    kFloat,     // float32.
    // s itself, int32, or int64 of integers of 16 bits: neither bias nor scale
    // nor relu.
    kSums,
  };

  uint64_t inputs = 0;  // Of one output: the terms of its sum.
  uint64_t outputs = 0;
  // [inputs, outputs], of a convolution [height, width, channels of a group,
  // outputs].
  std::vector<int8_t> weights;
  int most = 127;  // None is beyond -most to most.
  std::vector<float> bias;
  std::vector<float> scale;
  bool relu = false;
  Result result = Result::kFloat;
  // Of a convolution, of one example; its weights' order is that of Device.
  absl::optional<Convolution> convolution;
  uint8_t zero_point = 0;  // What lies around the image; of 16 bits it is 0.
};

// A sum of so many products of 8 bits fits 32 bits. Of 16 bits it is below
// 2^39, so it fits 64, and a double has it exactly.
constexpr uint64_t kMostInputs = 66000;

// Fills bias and scale: of an input with this scale and zero point, float
// weights of `weight_scales`, one or one of each output, a bias of each output
// or none, and an output whose scale is `output_scale`, 1 of a float.
void SetScales(float input_scale, uint8_t zero_point,
               const std::vector<float>& weight_scales,
               const std::vector<float>& bias, float output_scale,
               IntegerProduct* product);

// By output, the sum of its weights.
std::vector<int32_t> WeightSums(const IntegerProduct& product);

// The output from a sum.
float ScaledSum(const IntegerProduct& product, uint64_t output, int64_t sum);

// The product as plain loops: what every kernel is compared with. `input` is
// `examples` rows or images, `output` the result's type.
void MultiplyPlainly(const IntegerProduct& product, uint64_t examples,
                     const uint8_t* input, void* output);
void MultiplyPlainly(const IntegerProduct& product, uint64_t examples,
                     const int16_t* input, void* output);

// The largest of each window inside of the image.
void MaxPoolIntegers(const Window& window, const uint8_t* input,
                     uint8_t* output);
void MaxPoolIntegers(const Window& window, const int16_t* input,
                     int16_t* output);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_INTEGER_PRODUCT_H_
