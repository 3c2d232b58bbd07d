#include "input/label_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/optional.h"
#include "nlohmann/json.hpp"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kKind = "paramd labels 1";
constexpr uint64_t kMostClasses = uint64_t{1} << 24;
constexpr uint64_t kMostRecords = std::numeric_limits<uint32_t>::max();

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint64_t RecordBytes(uint64_t classes) {
  return 2 * sizeof(int32_t) + classes * sizeof(float);
}

template <typename T>
T ReadNumber(const char* bytes) {
  T number;
  std::memcpy(&number, bytes, sizeof(T));
  return number;
}

void AppendNumber(uint32_t number, std::string* to) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

// Nothing if it is none of these files.
absl::optional<LabelFileHeader> HeaderOf(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::nullopt;
  LabelFileHeader header;
  try {
    if (json.at("kind").get<std::string>() != kKind) return absl::nullopt;
    header.examples = json.at("examples").get<uint64_t>();
    header.records = json.at("records").get<uint64_t>();
    header.classes = json.at("classes").get<uint32_t>();
    header.data = json.at("data").get<std::string>();
    header.model = json.at("model").get<std::string>();
    header.records_crc32c = json.at("records_crc32c").get<uint32_t>();
    header.class_names = json.value("class_names", "");
  } catch (const Json::exception&) {
    return absl::nullopt;
  }
  const bool is_right = header.classes > 0 && header.classes <= kMostClasses &&
                        header.records <= kMostRecords;
  return is_right ? absl::optional<LabelFileHeader>(header) : absl::nullopt;
}

absl::StatusOr<std::unique_ptr<InputFile>> OpenLabels(const std::string& path) {
  auto file = InputFile::Open(path);
  if (!absl::IsNotFound(file.status())) return file;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no file '", path, "': paramd label writes it"));
}

absl::StatusOr<LabelFileHeader> HeaderIn(const InputFile& file) {
  absl::optional<LabelFileHeader> header;
  if (file.size() >= kLabelHeaderBytes) {
    std::string text(kLabelHeaderBytes, ' ');
    RETURN_IF_ERROR(
        file.Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()),
                                    text.size())));
    header = HeaderOf(text);
  }
  if (header.has_value()) return *std::move(header);
  return absl::InvalidArgumentError(absl::StrCat(
      "'", file.path(), "' is not what paramd label writes: name such a file"));
}

}  // namespace

absl::StatusOr<LabelFileHeader> ReadLabelHeader(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, OpenLabels(path));
  return HeaderIn(*file);
}

std::string LabelledDataKey(const v1::DataSet& data, const Stage& examples) {
  uint32_t order = 0;
  for (uint64_t i = 0; i < examples.size(); ++i) {
    const uint64_t index = examples.IndexAt({.epoch = 0, .offset = i});
    order =
        Crc32c(absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&index),
                                   sizeof(index)),
               order);
  }
  return absl::StrFormat("%08x%08x", data.examples_crc32c(), order);
}

absl::Status CheckLabelled(const LabelFileHeader& labels,
                           absl::string_view name, const Stage& examples,
                           const v1::DataSet& data) {
  if (labels.examples != examples.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name, "' is of ", labels.examples, " examples, and here are ",
        examples.size(), ": label these by paramd label"));
  }
  if (labels.data == LabelledDataKey(data, examples)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name,
      "' is of other examples than these, or of these in another order: label "
      "these by paramd label"));
}

std::string ClassNamesKey(const v1::DataMeaning& meaning,
                          absl::string_view label) {
  if (label.empty()) label = "label";
  for (const v1::DataMeaning::Fact& fact : meaning.facts()) {
    // Of csv, of one of its labels, or of a source of a zip.
    if (fact.feature() != label || fact.count() == 0 ||
        !absl::StrContains(fact.name(), "class_names")) {
      continue;
    }
    return absl::StrFormat("%016x", fact.hash());
  }
  return "";
}

absl::Status CheckClassNames(const LabelFileHeader& labels,
                             absl::string_view name,
                             const v1::DataMeaning& meaning,
                             absl::string_view label) {
  const std::string ours = ClassNamesKey(meaning, label);
  if (ours.empty() || labels.class_names.empty() ||
      ours == labels.class_names) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name,
      "' is of classes with other names than class_names of the input has, or "
      "of these in another order: label these examples by a model that was "
      "trained with the same class_names"));
}

std::string EncodeLabelHeader(const LabelFileHeader& header) {
  Json json;
  json["kind"] = std::string(kKind);
  json["examples"] = header.examples;
  json["records"] = header.records;
  json["classes"] = header.classes;
  json["data"] = header.data;
  json["model"] = header.model;
  json["records_crc32c"] = header.records_crc32c;
  if (!header.class_names.empty()) json["class_names"] = header.class_names;
  std::string text = json.dump();
  CHECK(text.size() < kLabelHeaderBytes, "a header has room for its numbers");
  text.resize(kLabelHeaderBytes - 1, ' ');
  text.push_back('\n');
  return text;
}

void AppendLabelRecord(uint32_t example, uint32_t label,
                       absl::Span<const float> probabilities,
                       std::string* records) {
  AppendNumber(example, records);
  AppendNumber(label, records);
  records->append(reinterpret_cast<const char*>(probabilities.data()),
                  probabilities.size() * sizeof(float));
}

uint64_t LabelFile::record_bytes() const {
  return RecordBytes(header_.classes);
}

absl::Status LabelFile::Wrong(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", path(), "' ", what, ": write it again by paramd label"));
}

absl::StatusOr<std::unique_ptr<LabelFile>> LabelFile::Open(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputFile> file, OpenLabels(path));
  ASSIGN_OR_RETURN(LabelFileHeader header, HeaderIn(*file));
  std::unique_ptr<LabelFile> labels(
      new LabelFile(std::move(file), std::move(header)));
  RETURN_IF_ERROR(labels->ReadRecords());
  return labels;
}

absl::Status LabelFile::ReadRecords() {
  const uint64_t bytes = record_bytes();
  const uint64_t all = header_.records * bytes;
  if (file_->size() != kLabelHeaderBytes + all) {
    return Wrong(absl::StrCat("has ", file_->size(), " bytes, and its header ",
                              kLabelHeaderBytes + all));
  }
  examples_.reserve(header_.records);
  labels_.reserve(header_.records);
  const uint64_t at_once = std::max<uint64_t>(kPieceBytes / bytes, 1);
  std::string piece;
  uint32_t sum = 0;
  for (uint64_t begin = 0; begin < header_.records; begin += at_once) {
    const uint64_t count = std::min(at_once, header_.records - begin);
    piece.resize(count * bytes);
    RETURN_IF_ERROR(
        file_->Read(kLabelHeaderBytes + begin * bytes,
                    absl::MakeSpan(reinterpret_cast<std::byte*>(piece.data()),
                                   piece.size())));
    sum = Crc32c(BytesOf(piece), sum);
    for (uint64_t i = 0; i < count; ++i) {
      const char* const record = piece.data() + i * bytes;
      examples_.push_back(ReadNumber<uint32_t>(record));
      labels_.push_back(ReadNumber<uint32_t>(record + sizeof(uint32_t)));
      if (examples_.back() >= header_.examples ||
          labels_.back() >= header_.classes) {
        return Wrong("names examples or classes that there are not");
      }
    }
  }
  if (sum == header_.records_crc32c) return absl::OkStatus();
  return Wrong("is damaged");
}

absl::Status LabelFile::ReadProbabilities(uint64_t record,
                                          absl::Span<float> out) const {
  CHECK(record < header_.records && out.size() == header_.classes,
        "the probabilities of a record are read");
  return file_->Read(
      kLabelHeaderBytes + record * record_bytes() + 2 * sizeof(int32_t),
      absl::MakeSpan(reinterpret_cast<std::byte*>(out.data()),
                     out.size() * sizeof(float)));
}

}  // namespace paramd
