#include "input/message_format.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "input/csv_feature.h"

namespace paramd {
namespace {

using Csv = v1::InputSource::Csv;

constexpr uint32_t kMostColumns = 65536;

// What the columns are called where the job gives them no names: 0, 1 and so on
// up to the last one that it reads.
absl::StatusOr<std::vector<std::string>> PlacesIn(const Csv& config) {
  ASSIGN_OR_RETURN(const std::vector<Csv::Feature> features,
                   CsvFeaturesOf(config));
  ASSIGN_OR_RETURN(const std::vector<Csv::Label> labels, CsvLabelsOf(config));
  uint32_t count = 0;
  absl::Status wrong;
  const auto add = [&](const std::string& name) {
    uint32_t place = 0;
    if (name.empty()) return;
    if (absl::SimpleAtoi(name, &place) && place < kMostColumns) {
      count = std::max(count, place + 1);
    } else if (wrong.ok()) {
      wrong = absl::InvalidArgumentError(absl::StrCat(
          "the job file reads the column '", name,
          "' of messages, whose columns are numbered from 0; give their names "
          "in input.train.kafka.columns"));
    }
  };
  for (const Csv::Feature& feature : features) {
    for (const std::string& name : feature.columns()) add(name);
    for (const std::string& name : feature.log_columns()) add(name);
    add(feature.list_of());
  }
  for (const Csv::Label& label : labels) add(label.column());
  add(config.group());
  add(config.weight());
  RETURN_IF_ERROR(wrong);
  std::vector<std::string> names;
  for (uint32_t place = 0; place < count; ++place) {
    names.push_back(absl::StrCat(place));
  }
  return names;
}

}  // namespace

absl::StatusOr<MessageFormat> MessageFormat::Of(const v1::InputSource& config) {
  std::vector<std::string> columns = {config.kafka().columns().begin(),
                                      config.kafka().columns().end()};
  switch (config.kind_case()) {
    case v1::InputSource::kCsv:
      if (columns.empty()) {
        ASSIGN_OR_RETURN(columns, PlacesIn(config.csv()));
      }
      break;
    case v1::InputSource::kLibsvm:
      if (config.libsvm().columns() == 0) {
        return absl::InvalidArgumentError(
            "libsvm.columns is missing; with kafka nobody knows yet what the "
            "largest index will be");
      }
      break;
    case v1::InputSource::kTfrecord:
      break;
    default:
      return absl::InvalidArgumentError(
          "messages of kafka are read by csv, libsvm or tfrecord");
  }
  return MessageFormat(config, std::move(columns));
}

OpenedSource MessageFormat::Open(std::unique_ptr<InputFile> messages) const {
  InputFiles files;
  if (messages != nullptr) files.push_back(std::move(messages));
  switch (config_.kind_case()) {
    case v1::InputSource::kCsv:
      return ReadCsv(std::move(files), config_.csv(), columns_);
    case v1::InputSource::kLibsvm:
      return ReadLibSvm(std::move(files), config_.libsvm());
    default:
      return ReadTfRecord(std::move(files), config_.tfrecord());
  }
}

}  // namespace paramd
