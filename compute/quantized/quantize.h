#ifndef PARAMD_COMPUTE_QUANTIZED_QUANTIZE_H_
#define PARAMD_COMPUTE_QUANTIZED_QUANTIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "checkpoint/quantization.h"
#include "compute/model/trained_model.h"
#include "input/batch.h"
#include "input/pipeline.h"
#include "proto/paramd/v1/model.pb.h"

namespace paramd {

// How a trained network is quantised. One that was trained to be quantised is
// as it was trained, whatever they say but for `mode`, which must be kStatic.
struct QuantizeOptions {
  Quantization::Mode mode = Quantization::Mode::kStatic;
  bool per_channel = true;
  int most_weight = 127;
  // Of static ranges: what the float network is run on, in so many batches of
  // so many examples at most. Not where training has learned the ranges.
  const Pipeline* calibration = nullptr;
  std::string calibrated_on;
  std::string observer = "min_max";
  int activation_bits = 8;  // 16: of inputs; REQUIRES: mode kStatic.
  uint64_t batches = 100;
  uint64_t batch = 32;
};

struct Quantized {
  Quantization quantization;
  std::vector<QuantizedTensor> tensors;  // Of each variable, in order.
};

// The network with these weights, which are whole. Where a batch norm is
// folded into the weights before it, its own variables become those of one that
// changes nothing but for the bias, so that the network means the same with
// what the tensors stand for.
//
// INVALID_ARGUMENT, a sentence, if the observer is unknown, the calibration set
// is empty, or all of it is one number, the input does not suit the network, no
// layer can be quantised, an input of a layer or a weight is not finite, or
// too large for float16, or training has learned no range yet, or is of another
// mode than kStatic. REQUIRES: no variable is keyed; if static, a calibration
// or learned ranges.
absl::StatusOr<Quantized> Quantize(const v1::ModelConfig& model,
                                   const InputSpec& input, WeightSpans weights,
                                   const QuantizeOptions& options);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_QUANTIZED_QUANTIZE_H_
