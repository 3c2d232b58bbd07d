#include "checkpoint/quantization.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

#include "base/status_macros.h"
#include "checkpoint/directory.h"
#include "checkpoint/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/verify.h"
#include "checkpoint/whole_directory.h"
#include "tensor/buffer.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

using OrderedJson = nlohmann::ordered_json;
using Mode = Quantization::Mode;

constexpr std::pair<Mode, absl::string_view> kModes[] = {
    {Mode::kStatic, "static"},
    {Mode::kDynamic, "dynamic"},
    {Mode::kFloat16, "float16"},
    {Mode::kBFloat16, "bfloat16"}};

absl::Status NoQuantization(absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("what it says of its quantisation ", why));
}

constexpr uint32_t kWideBits = 16;
constexpr uint32_t kNoNumber = std::numeric_limits<uint32_t>::max();

// The zero point of 16 bits is not said: without it versions that know 8 bits
// alone refuse the checkpoint, where they would compute something else.
OrderedJson JsonOf(const Quantization::Layer& layer, uint32_t bits) {
  OrderedJson json = {{"name", layer.name}, {"kind", layer.kind}};
  if (!layer.folded.empty()) json["folded"] = layer.folded;
  if (layer.input.has_value()) {
    json["input_scale"] = layer.input->scale;
    if (bits != kWideBits) {
      json["input_zero_point"] = layer.input->zero_point;
    }
  }
  return json;
}

// `otherwise` if it is not there. What is no whole number of 32 bits is the
// largest, which nothing here may be: `get` would cut it off to one that may.
uint32_t NumberAt(const OrderedJson& json, const char* key,
                  uint32_t otherwise) {
  const auto found = json.find(key);
  if (found == json.end()) return otherwise;
  if (!found->is_number_unsigned()) return kNoNumber;
  return static_cast<uint32_t>(
      std::min<uint64_t>(found->get<uint64_t>(), kNoNumber));
}

// Throws if it is none.
Quantization::Layer LayerOf(const OrderedJson& json, uint32_t bits) {
  Quantization::Layer layer;
  layer.name = json.at("name").get<std::string>();
  layer.kind = json.at("kind").get<std::string>();
  layer.folded = json.value("folded", "");
  if (!json.contains("input_scale")) return layer;
  layer.input.emplace();
  layer.input->scale = json["input_scale"].get<float>();
  layer.input->zero_point =
      NumberAt(json, "input_zero_point", bits == kWideBits ? 0 : kNoNumber);
  return layer;
}

absl::Status CheckRanges(const Quantization& quantization) {
  if (quantization.most_weight == 0 || quantization.most_weight > 127) {
    return NoQuantization("has a largest weight that is not from 1 to 127");
  }
  if (quantization.activation_bits != 8 &&
      (quantization.activation_bits != kWideBits ||
       quantization.mode != Mode::kStatic)) {
    return NoQuantization("has inputs of bits that it can't have");
  }
  if (!quantization.has_integers() && !quantization.layers.empty()) {
    return NoQuantization("has layers of integers in a mode without them");
  }
  const uint32_t most_zero_point =
      quantization.activation_bits == kWideBits ? 0 : 255;
  for (const Quantization::Layer& layer : quantization.layers) {
    if (layer.input.has_value() != (quantization.mode == Mode::kStatic)) {
      return NoQuantization(
          absl::StrCat("has '", layer.name, "' in another mode"));
    }
    if (!layer.input.has_value()) continue;
    const float scale = layer.input->scale;
    if (!std::isfinite(scale) || !std::isfinite(1 / scale) || !(scale > 0) ||
        layer.input->zero_point > most_zero_point) {
      return NoQuantization(
          absl::StrCat("has '", layer.name, "' with an impossible range"));
    }
  }
  return absl::OkStatus();
}

std::string BytesText(const std::vector<float>& values) {
  std::string bytes(values.size() * sizeof(float), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
absl::StatusOr<std::vector<T>> ReadValuesOf(const SafetensorsFile& file,
                                            const TensorInfo& tensor) {
  std::vector<T> values((tensor.end - tensor.begin) / sizeof(T));
  RETURN_IF_ERROR(
      file.ReadInto(tensor, 0, AsWritableBytes(absl::MakeSpan(values))));
  return values;
}

// What the file of tensors is, by its manifest.
v1::ShardFile ShardOf(const v1::Manifest& manifest) {
  v1::ShardFile shard;
  shard.set_name(kQuantizedFile);
  for (const v1::Variable& variable : manifest.variables()) {
    v1::SavedSlice* const slice = shard.add_slices();
    slice->set_variable(variable.name());
    slice->set_row_end(variable.shape().empty() ? 1 : variable.shape(0));
    slice->set_values_tensor(variable.name());
  }
  return shard;
}

absl::Status WriteTensors(const std::string& directory,
                          const Quantization& quantization,
                          const std::vector<QuantizedTensor>& tensors,
                          v1::ShardFile* shard) {
  std::vector<TensorInfo> infos;
  std::vector<const std::string*> contents;
  std::vector<std::string> scales(tensors.size());
  uint64_t end = 0;
  const auto add = [&](std::string name, std::string dtype,
                       std::vector<uint64_t> shape, const std::string& bytes) {
    const uint64_t begin = end;
    end += bytes.size();
    infos.push_back(
        {std::move(name), std::move(dtype), std::move(shape), begin, end});
    contents.push_back(&bytes);
  };
  // The wider ones first, so that each lies where readers want it.
  for (const bool wide : {true, false}) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      const QuantizedTensor& tensor = tensors[i];
      if (wide && tensor.dtype == "I8") {
        scales[i] = BytesText(tensor.scales);
        add(ScalesTensor(tensor.name), "F32", {tensor.scales.size()},
            scales[i]);
      }
      if (wide == (tensor.dtype == "F32")) {
        add(tensor.name, tensor.dtype, tensor.shape, tensor.bytes);
      }
    }
  }
  ASSIGN_OR_RETURN(
      const std::string header,
      EncodeSafetensorsHeader(
          infos, {{kQuantizationKey, EncodeQuantization(quantization)}}));
  ASSIGN_OR_RETURN(const auto file, NewFile::Create(absl::StrCat(
                                        directory, "/", kQuantizedFile)));
  RETURN_IF_ERROR(file->Append(header));
  for (const std::string* const bytes : contents) {
    RETURN_IF_ERROR(file->Append(*bytes));
  }
  RETURN_IF_ERROR(file->Finish());
  shard->set_bytes(file->bytes());
  shard->set_crc32c(file->crc32c());
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> WriteAll(const std::string& directory,
                                  const v1::Manifest& from,
                                  const Quantization& quantization,
                                  const std::vector<QuantizedTensor>& tensors) {
  v1::Manifest manifest;
  manifest.set_format(kQuantizedFormat);
  manifest.set_min_reader(kQuantizedFormat);
  manifest.set_job_name(from.job_name());
  manifest.set_job_digest(from.job_digest());
  manifest.set_run_id(from.run_id());
  *manifest.mutable_snapshot() = from.snapshot();
  manifest.set_global_step(from.global_step());
  manifest.set_created(
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::Now(), absl::UTCTimeZone()));
  *manifest.mutable_variables() = from.variables();
  manifest.set_final(from.final());
  *manifest.mutable_job() = from.job();
  v1::ShardFile shard = ShardOf(manifest);
  RETURN_IF_ERROR(WriteTensors(directory, quantization, tensors, &shard));
  *manifest.add_files() = std::move(shard);
  RETURN_IF_ERROR(VerifyFiles(directory, manifest, {}));
  RETURN_IF_ERROR(WriteManifestFiles(directory, manifest));
  return CheckpointBytes(manifest);
}

}  // namespace

const Quantization::Layer* Quantization::Find(absl::string_view layer) const {
  for (const Layer& one : layers) {
    if (one.name == layer) return &one;
  }
  return nullptr;
}

absl::string_view NameOf(Mode mode) {
  for (const auto& [known, name] : kModes) {
    if (known == mode) return name;
  }
  return "";
}

absl::optional<Mode> QuantizationModeOf(absl::string_view name) {
  for (const auto& [mode, known] : kModes) {
    if (known == name) return mode;
  }
  return absl::nullopt;
}

std::string RangeText(const Quantization& quantization) {
  if (!quantization.has_integers()) {
    return absl::StrCat("none, weights are ", NameOf(quantization.mode));
  }
  const bool wide = quantization.activation_bits == kWideBits;
  const std::string weights =
      absl::StrCat(wide ? "inputs -32767 to 32767" : "inputs 0 to 255",
                   ", weights ", -static_cast<int>(quantization.most_weight),
                   " to ", quantization.most_weight);
  if (wide) {
    return absl::StrCat(weights, ": sums of 64 bits, right on every processor");
  }
  // Two products of the largest, in 16 bits.
  return quantization.most_weight * 255 * 2 > 32767
             ? absl::StrCat(weights,
                            ": sums need 32 bits (VNNI); without it plain "
                            "loops compute them")
             : absl::StrCat(weights, ": right on every processor");
}

std::string EncodeQuantization(const Quantization& quantization) {
  OrderedJson json = {{"mode", std::string(NameOf(quantization.mode))}};
  if (quantization.has_integers()) {
    json["most_weight"] = quantization.most_weight;
    json["per_channel"] = quantization.per_channel;
    if (quantization.activation_bits != 8) {
      json["activation_bits"] = quantization.activation_bits;
    }
    json["range"] = RangeText(quantization);
  }
  if (!quantization.observer.empty()) {
    json["observer"] = quantization.observer;
    if (quantization.examples > 0) {
      json["calibrated_on"] = quantization.calibrated_on;
      json["examples"] = quantization.examples;
    }
  }
  json["layers"] = OrderedJson::array();
  for (const Quantization::Layer& layer : quantization.layers) {
    json["layers"].push_back(JsonOf(layer, quantization.activation_bits));
  }
  json["float"] = OrderedJson::array();
  for (const Quantization::Left& left : quantization.left) {
    json["float"].push_back({{"name", left.name}, {"why", left.why}});
  }
  // In ASCII: a path may be no UTF-8, and the header must be.
  return json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace);
}

absl::StatusOr<Quantization> ParseQuantization(absl::string_view text) {
  Quantization quantization;
  try {
    const OrderedJson json = OrderedJson::parse(text.begin(), text.end());
    const auto mode = QuantizationModeOf(json.at("mode").get<std::string>());
    if (!mode.has_value())
      return NoQuantization("has a mode of a later version");
    quantization.mode = *mode;
    quantization.most_weight = NumberAt(json, "most_weight", 127);
    quantization.per_channel = json.value("per_channel", true);
    quantization.activation_bits = NumberAt(json, "activation_bits", 8);
    quantization.observer = json.value("observer", "");
    quantization.calibrated_on = json.value("calibrated_on", "");
    quantization.examples = json.value("examples", uint64_t{0});
    for (const OrderedJson& layer : json.at("layers")) {
      quantization.layers.push_back(
          LayerOf(layer, quantization.activation_bits));
    }
    for (const OrderedJson& left : json.at("float")) {
      quantization.left.push_back({left.at("name").get<std::string>(),
                                   left.at("why").get<std::string>()});
    }
  } catch (const OrderedJson::exception&) {
    return NoQuantization("is not what paramd quantize writes");
  }
  RETURN_IF_ERROR(CheckRanges(quantization));
  return quantization;
}

bool IsQuantized(const v1::Manifest& manifest) {
  return manifest.format() == kQuantizedFormat;
}

std::string ScalesTensor(absl::string_view tensor) {
  return absl::StrCat(tensor, "/scales");
}

absl::StatusOr<Quantization> ReadQuantization(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kQuantizedFile);
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  const auto found = file->metadata().find(kQuantizationKey);
  auto quantization = ParseQuantization(
      found == file->metadata().end() ? std::string() : found->second);
  if (quantization.ok()) return quantization;
  return absl::DataLossError(
      absl::StrCat("'", path, "': ", quantization.status().message()));
}

absl::StatusOr<std::map<std::string, IntegerTensor>> ReadIntegerTensors(
    const std::string& directory, const std::vector<std::string>& names) {
  const std::string path = absl::StrCat(directory, "/", kQuantizedFile);
  RETURN_IF_ERROR(VerifyFileOfCheckpoint(path));
  ASSIGN_OR_RETURN(const auto file, SafetensorsFile::Open(path));
  std::map<std::string, IntegerTensor> tensors;
  for (const std::string& name : names) {
    const TensorInfo* const values = file->Find(name);
    const TensorInfo* const scales = file->Find(ScalesTensor(name));
    if (values == nullptr || values->dtype != "I8" || values->shape.empty() ||
        scales == nullptr || scales->dtype != "F32" ||
        scales->shape.size() != 1 ||
        (scales->shape[0] != 1 && scales->shape[0] != values->shape.back())) {
      return absl::DataLossError(absl::StrCat("'", path, "' has no integers '",
                                              name, "' with their scales"));
    }
    IntegerTensor& tensor = tensors[name];
    ASSIGN_OR_RETURN(tensor.values, ReadValuesOf<int8_t>(*file, *values));
    ASSIGN_OR_RETURN(tensor.scales, ReadValuesOf<float>(*file, *scales));
    for (const float scale : tensor.scales) {
      if (std::isfinite(scale) && scale > 0) continue;
      return absl::DataLossError(
          absl::StrCat("'", path, "': a scale of '", name, "' is not above 0"));
    }
  }
  return tensors;
}

absl::Status CheckCanGoOn(const std::string& directory,
                          const v1::Manifest& manifest) {
  if (!IsQuantized(manifest)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", directory,
      "' is quantised, and nothing can be trained on from it: it has no "
      "optimizer's slots and fewer bits; go on with the checkpoint that it was "
      "made of, or begin another run with its weights (warm_start.path)"));
}

absl::StatusOr<uint64_t> WriteQuantized(
    const std::string& to, const v1::Manifest& manifest,
    const Quantization& quantization,
    const std::vector<QuantizedTensor>& tensors) {
  ASSIGN_OR_RETURN(const std::string path, AbsolutePath(to));
  if (ReadableFile::Open(path).ok() || IsDirectory(path)) {
    return absl::AlreadyExistsError(absl::StrCat(
        "'", path, "' exists; a quantised checkpoint is a new directory"));
  }
  uint64_t bytes = 0;
  const auto write = [&](const std::string& directory) -> absl::Status {
    ASSIGN_OR_RETURN(bytes,
                     WriteAll(directory, manifest, quantization, tensors));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(MakeWholeDirectory(path, write).status());
  return bytes;
}

}  // namespace paramd
