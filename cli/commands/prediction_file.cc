#include "cli/commands/prediction_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paramd {
namespace {

// The whole header, so that data begins at a multiple of 64.
constexpr size_t kNpyHeaderBytes = 192;

// JSON has no other numbers than finite ones.
std::string JsonNumber(float value) {
  return std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null";
}

}  // namespace

absl::StatusOr<PredictionFile::Format> PredictionFile::ParseFormat(
    absl::string_view text) {
  if (text == "csv") return Format::kCsv;
  if (text == "jsonl") return Format::kJsonLines;
  if (text == "npy") return Format::kNpy;
  return absl::InvalidArgumentError(
      absl::StrCat("--format is csv, jsonl or npy, not '", text, "'"));
}

absl::Status PredictionFile::Add(absl::Span<const Column> predictions) {
  for (const Column& one : predictions) {
    const FeatureSpec& spec = one.spec();
    if (spec.dtype == DType::kFloat32 && !spec.ragged && spec.size() > 0) {
      continue;
    }
    return absl::InternalError("the model predicts something else than floats");
  }
  if (predictions.empty()) {
    return absl::InternalError("the model predicts nothing");
  }
  if (!begun_) Begin(predictions);
  std::vector<absl::Span<const float>> outputs;
  const uint64_t examples = predictions.front().values<float>().size() /
                            predictions.front().spec().size();
  for (uint64_t i = 0; i < examples; ++i) {
    outputs.clear();
    for (const Column& one : predictions) {
      const uint64_t size = one.spec().size();
      outputs.push_back(one.values<float>().subspan(i * size, size));
    }
    AddLine(outputs);
    ++examples_;
  }
  return CheckWritten();
}

void PredictionFile::Begin(absl::Span<const Column> predictions) {
  begun_ = true;
  for (const Column& one : predictions) specs_.push_back(one.spec());
  if (format_ == Format::kNpy) {
    const std::string room(kNpyHeaderBytes, ' ');
    std::fwrite(room.data(), 1, room.size(), file_);
  }
  if (format_ != Format::kCsv || !names_) return;
  std::string line;
  for (const FeatureSpec& spec : specs_) {
    for (uint64_t i = 0; i < spec.size(); ++i) {
      absl::StrAppend(&line, line.empty() ? "" : ",", spec.name,
                      spec.size() == 1 ? "" : absl::StrCat("_", i));
    }
  }
  std::fprintf(file_, "%s\n", line.c_str());
}

void PredictionFile::AddLine(
    absl::Span<const absl::Span<const float>> outputs) {
  if (format_ == Format::kNpy) {
    for (const absl::Span<const float> values : outputs) {
      std::fwrite(values.data(), sizeof(float), values.size(), file_);
    }
    return;
  }
  const bool json = format_ == Format::kJsonLines;
  std::string line;
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (o > 0) line += json ? ", " : ",";
    const bool is_list = json && !specs_[o].dims.empty();
    if (json) absl::StrAppend(&line, "\"", specs_[o].name, "\": ");
    if (is_list) line.push_back('[');
    for (size_t i = 0; i < outputs[o].size(); ++i) {
      const float value = outputs[o][i];
      absl::StrAppend(
          &line, i > 0 ? "," : "",
          json ? JsonNumber(value) : absl::StrFormat("%.9g", value));
    }
    if (is_list) line.push_back(']');
  }
  std::fprintf(file_, json ? "{%s}\n" : "%s\n", line.c_str());
}

std::string PredictionFile::NpyHeader() const {
  std::string shape = absl::StrCat("(", examples_, ",");
  Dims dims;
  if (specs_.size() == 1) {
    dims = specs_.front().dims;
  } else if (!specs_.empty()) {
    dims.push_back(0);
    for (const FeatureSpec& spec : specs_) dims[0] += spec.size();
  }
  for (const uint64_t dimension : dims) {
    absl::StrAppend(&shape, " ", dimension, ",");
  }
  std::string header("\x93NUMPY\x01\x00", 8);
  const size_t text_bytes = kNpyHeaderBytes - header.size() - 2;
  header.push_back(static_cast<char>(text_bytes & 0xff));
  header.push_back(static_cast<char>(text_bytes >> 8));
  absl::StrAppend(&header,
                  "{'descr': '<f4', 'fortran_order': False, 'shape': ", shape,
                  "), }");
  header.resize(kNpyHeaderBytes - 1, ' ');
  header.push_back('\n');
  return header;
}

absl::Status PredictionFile::CheckWritten() const {
  if (std::ferror(file_) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("predictions can't be written: ", std::strerror(errno)));
}

absl::Status PredictionFile::Finish() {
  if (format_ == Format::kNpy) {
    const std::string header = NpyHeader();
    if (std::fseek(file_, 0, SEEK_SET) != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "npy has its header written last, which this file does not allow (",
          std::strerror(errno), "): choose csv or jsonl for a pipe"));
    }
    std::fwrite(header.data(), 1, header.size(), file_);
  }
  std::fflush(file_);
  return CheckWritten();
}

}  // namespace paramd
