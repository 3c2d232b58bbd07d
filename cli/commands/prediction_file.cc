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

absl::Status PredictionFile::Add(const Column& predictions) {
  const FeatureSpec& spec = predictions.spec();
  if (spec.dtype != DType::kFloat32 || spec.ragged || spec.size() == 0) {
    return absl::InternalError("the model predicts something else than floats");
  }
  if (!begun_) Begin(spec);
  const absl::Span<const float> values = predictions.values<float>();
  if (values.empty()) return absl::OkStatus();
  if (format_ == Format::kNpy) {
    std::fwrite(values.data(), sizeof(float), values.size(), file_);
    examples_ += values.size() / spec.size();
    return absl::OkStatus();
  }
  for (size_t at = 0; at < values.size(); at += spec.size()) {
    AddLine(values.subspan(at, spec.size()));
    ++examples_;
  }
  return absl::OkStatus();
}

void PredictionFile::Begin(const FeatureSpec& spec) {
  begun_ = true;
  spec_ = spec;
  if (format_ == Format::kNpy) {
    const std::string room(kNpyHeaderBytes, ' ');
    std::fwrite(room.data(), 1, room.size(), file_);
  }
  if (format_ != Format::kCsv || !names_) return;
  std::string line;
  for (uint64_t i = 0; i < spec.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : ",", "prediction",
                    spec.size() == 1 ? "" : absl::StrCat("_", i));
  }
  std::fprintf(file_, "%s\n", line.c_str());
}

void PredictionFile::AddLine(absl::Span<const float> values) {
  const bool json = format_ == Format::kJsonLines;
  std::string line;
  for (const float value : values) {
    if (!line.empty()) line.push_back(',');
    line += json ? JsonNumber(value) : absl::StrFormat("%.9g", value);
  }
  if (!json) {
    std::fprintf(file_, "%s\n", line.c_str());
  } else if (spec_.dims.empty()) {
    std::fprintf(file_, "{\"prediction\": %s}\n", line.c_str());
  } else {
    std::fprintf(file_, "{\"prediction\": [%s]}\n", line.c_str());
  }
}

std::string PredictionFile::NpyHeader() const {
  std::string shape = absl::StrCat("(", examples_, ",");
  for (const uint64_t dimension : spec_.dims) {
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

absl::Status PredictionFile::Finish() {
  if (format_ == Format::kNpy) {
    const std::string header = NpyHeader();
    if (std::fseek(file_, 0, SEEK_SET) == 0) {
      std::fwrite(header.data(), 1, header.size(), file_);
    }
  }
  if (std::fflush(file_) == 0 && std::ferror(file_) == 0) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("predictions can't be written: ", std::strerror(errno)));
}

}  // namespace paramd
