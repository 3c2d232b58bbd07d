#ifndef PARAMD_CHECKPOINT_QUANTIZATION_H_
#define PARAMD_CHECKPOINT_QUANTIZATION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// A quantised checkpoint is one in format 3: one file, whose tensors have fewer
// bits than the variables. F16 and BF16 are what they are; I8 is multiplied by
// the F32 tensor beside it that ScalesTensor names, of one number, or one for
// each place of the last dimension. Whoever reads the checkpoint gets float32
// (checkpoint_files.h). The file's metadata has a Quantization in JSON.
constexpr uint32_t kQuantizedFormat = 3;
inline constexpr char kQuantizedFile[] = "quantized.safetensors";
inline constexpr char kQuantizationKey[] = "paramd.quantization";

// What a quantised checkpoint says of its numbers.
struct Quantization {
  enum class Mode : uint8_t { kStatic, kDynamic, kFloat16, kBFloat16 };
  // How a layer's input is made integers of: q = round(x / scale) + zero_point,
  // from 0 to 255, or of 16 bits from -32767 to 32767 with a zero point of 0.
  struct Input {
    float scale = 1;
    uint32_t zero_point = 0;
  };
  struct Layer {
    std::string name;  // Its variables begin with it: "conv_1".
    std::string kind;  // "dense", "conv2d", "attention"
    // The batch norm behind it, whose factors are in its weights.
    std::string folded;
    absl::optional<Input> input;  // Not if dynamic: of each example its own.
  };
  struct Left {
    std::string name;
    std::string why;
  };

  Mode mode = Mode::kStatic;
  // Integer weights are from -most_weight to most_weight: 127, of which two
  // products by 255 don't fit 16 bits, or 63.
  uint32_t most_weight = 127;
  bool per_channel = true;
  uint32_t activation_bits = 8;  // Of inputs; 16: of static ranges alone.
  // Of static ranges: how they were found, and on what; no examples: by
  // training.
  std::string observer;
  std::string calibrated_on;
  uint64_t examples = 0;
  std::vector<Layer> layers;
  std::vector<Left> left;  // In float.

  bool has_integers() const {
    return mode == Mode::kStatic || mode == Mode::kDynamic;
  }
  // Null if it is left in float.
  const Layer* Find(absl::string_view layer) const;
};

absl::string_view NameOf(Quantization::Mode mode);  // "static"
// Nullopt if there is none of that name.
absl::optional<Quantization::Mode> QuantizationModeOf(absl::string_view name);

// Which range the numbers assume, for people.
std::string RangeText(const Quantization& quantization);

std::string EncodeQuantization(const Quantization& quantization);
// DATA_LOSS if the text is none.
absl::StatusOr<Quantization> ParseQuantization(absl::string_view json);

bool IsQuantized(const v1::Manifest& manifest);

// "dense_1/kernel/scales"
std::string ScalesTensor(absl::string_view tensor);

// Of a quantised checkpoint in `directory`. The errors of SafetensorsFile, and
// DATA_LOSS if its file does not say it.
absl::StatusOr<Quantization> ReadQuantization(const std::string& directory);

// A tensor as it lies in the file: integers and their scales.
struct IntegerTensor {
  std::vector<int8_t> values;
  std::vector<float> scales;
};
// Of each of these names. The file's checksum is looked at. DATA_LOSS naming
// the tensor that is none, or has a scale that is not above 0.
absl::StatusOr<std::map<std::string, IntegerTensor>> ReadIntegerTensors(
    const std::string& directory, const std::vector<std::string>& names);

// For whoever would train on: INVALID_ARGUMENT, a sentence that names the
// checkpoint and what can be done, if it is quantised.
absl::Status CheckCanGoOn(const std::string& directory,
                          const v1::Manifest& manifest);

// One tensor of a quantised checkpoint to be written, with its variable's name.
struct QuantizedTensor {
  std::string name;
  std::string dtype;  // "F32", "F16", "BF16", "I8"
  std::vector<uint64_t> shape;
  std::string bytes;
  std::vector<float> scales;  // Of I8.
};

// Makes the directory `to`, which is not there yet, a quantised checkpoint of
// the variables of `manifest`, one tensor each in their order; the rest of its
// manifest is that of the one it comes from, less what is of training.
// ALREADY_EXISTS if the directory is there; else nothing is left on an error.
// The result is the size of all its files.
absl::StatusOr<uint64_t> WriteQuantized(
    const std::string& to, const v1::Manifest& manifest,
    const Quantization& quantization,
    const std::vector<QuantizedTensor>& tensors);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_QUANTIZATION_H_
