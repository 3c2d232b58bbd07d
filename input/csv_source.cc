#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/shorten.h"
#include "base/status_macros.h"
#include "input/columns.h"
#include "input/csv_feature.h"
#include "input/file.h"
#include "input/sources.h"
#include "input/text_lines.h"
#include "input/transform.h"

namespace paramd {
namespace {

using Csv = v1::InputSource::Csv;

constexpr size_t kMostSeparator = 16;

std::string ColumnList(const std::vector<std::string>& names) {
  return Shortened(absl::StrJoin(names, ", "), 80);
}

// What a feature reads in a column, for a sentence.
absl::string_view ReadAs(CsvFeature::Kind kind) {
  switch (kind) {
    case CsvFeature::Kind::kNumber:
      return "numbers";
    case CsvFeature::Kind::kClass:
      return "classes";
    case CsvFeature::Kind::kText:
      break;
  }
  return "texts";
}

// Whether a column of hashes is read as classes, too, by a feature that has it
// alone, as those that evaluations are sliced by.
bool IsHashedAndClass(const CsvFeature& one, const CsvFeature& other) {
  return one.kind() == CsvFeature::Kind::kClass && one.columns().size() == 1 &&
         other.kind() == CsvFeature::Kind::kText;
}

// Of the features that the job names.
absl::Status CheckKinds(const std::vector<CsvFeature>& features) {
  absl::flat_hash_map<std::string, const CsvFeature*> readers;
  for (const CsvFeature& feature : features) {
    for (const std::string& column : feature.columns()) {
      const CsvFeature& first =
          *readers.insert({column, &feature}).first->second;
      if (first.kind() == feature.kind()) continue;
      if (IsHashedAndClass(first, feature) ||
          IsHashedAndClass(feature, first)) {
        continue;
      }
      return absl::InvalidArgumentError(absl::StrCat(
          feature.key(), ".columns reads '", Shortened(column), "' as ",
          ReadAs(feature.kind()), ", and ", first.key(), ".columns as ",
          ReadAs(first.kind()), "; a column is of one kind"));
    }
  }
  return absl::OkStatus();
}

class CsvSource : public ExampleSource {
 public:
  CsvSource(std::vector<std::unique_ptr<InputFile>> files,
            const ColumnFormat& format, const std::vector<std::string>& columns)
      : lines_(std::move(files), {.columns = format}), format_(format) {
    if (!columns.empty()) names_.emplace("kafka.columns", columns);
  }

  absl::Status Open(const Csv& config) {
    ASSIGN_OR_RETURN(labels_, CsvLabelsOf(config));
    ASSIGN_OR_RETURN(std::vector<Csv::Feature> wanted, CsvFeaturesOf(config));
    RETURN_IF_ERROR(ReadNames(config, wanted));
    if (!names_.has_value()) return absl::OkStatus();
    if (wanted[0].columns().empty()) {
      ASSIGN_OR_RETURN(*wanted[0].mutable_columns(), OtherColumns(config));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSIGN_OR_RETURN(CsvFeature feature,
                       CsvFeature::Make(wanted[i], CsvKey(config, i), *names_));
      features_.push_back(std::move(feature));
    }
    RETURN_IF_ERROR(CheckKinds(features_));
    wanted_ = features_.size();
    for (size_t i = 0; i < labels_.size(); ++i) {
      ASSIGN_OR_RETURN(
          CsvFeature label,
          CsvFeature::MakeLabel(labels_[i], CsvLabelKey(config, i), *names_));
      features_.push_back(std::move(label));
    }
    if (!config.group().empty()) {
      ASSIGN_OR_RETURN(CsvFeature group,
                       CsvFeature::MakeGroup(config, *names_));
      features_.push_back(std::move(group));
    }
    if (!config.weight().empty()) {
      ASSIGN_OR_RETURN(CsvFeature weight,
                       CsvFeature::MakeWeight(config, *names_));
      features_.push_back(std::move(weight));
    }
    for (const CsvFeature& feature : features_) {
      RETURN_IF_ERROR(AddSpec(feature));
    }
    class_names_ = {config.class_names().begin(), config.class_names().end()};
    ASSIGN_OR_RETURN(checksum_, lines_.Checksum());
    return CheckSizes(spec_);
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return lines_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  SourceNames Names() const override {
    SourceNames names;
    for (size_t f = 0; f < wanted_; ++f) {
      names.columns.push_back(features_[f].columns());
    }
    names.classes = class_names_;
    return names;
  }
  std::vector<uint64_t> FileStarts() const override { return lines_.starts(); }
  std::string Where(uint64_t index) const override {
    return lines_.Where(index);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    ASSIGN_OR_RETURN(const std::string line, lines_.Read(index));
    std::vector<std::string> row;
    absl::Status read = SplitColumns(line, format_, &row);
    if (read.ok() && row.size() != names_->size()) {
      const bool has_line_end = line.find_first_of("\r\n") != line.npos;
      read = absl::DataLossError(absl::StrCat("has ", row.size(), " columns; ",
                                              names_->size(), " are needed",
                                              has_line_end ? kIfNoQuotes : ""));
    }
    example->values.resize(features_.size());
    for (size_t f = 0; f < features_.size() && read.ok(); ++f) {
      read = features_[f].Read(row, &example->values[f]);
    }
    if (read.ok()) return read;
    return absl::DataLossError(
        absl::StrCat(Where(index), ": ", read.message()));
  }

 private:
  // What the columns are called: by the header of the files, by their places in
  // the first row, or, where there is none, by what the job calls them.
  absl::Status ReadNames(const Csv& config,
                         const std::vector<Csv::Feature>& wanted) {
    const bool has_header = config.header() && !names_.has_value();
    for (uint32_t file = 0; file < lines_.files(); ++file) {
      std::string header;
      RETURN_IF_ERROR(lines_.AddFile(file, has_header ? &header : nullptr));
      if (!header.empty()) RETURN_IF_ERROR(ReadHeader(file, header));
    }
    if (names_.has_value()) return absl::OkStatus();
    if (lines_.size() > 0) return NumberColumns();
    const bool is_any = lines_.files() == 0 || !wanted[0].columns().empty();
    return is_any ? AssumeColumns(config, wanted) : absl::OkStatus();
  }

  absl::Status ReadHeader(uint32_t file, const std::string& line) {
    std::vector<std::string> names;
    const absl::Status split = SplitColumns(line, format_, &names);
    if (!split.ok()) {
      return absl::DataLossError(absl::StrCat(
          "'", lines_.path(file), "', its header: ", split.message()));
    }
    if (!names_.has_value()) {
      names_.emplace(Quoted(file), std::move(names));
      return absl::OkStatus();
    }
    if (names == names_->list()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        "'", lines_.path(file), "' has the columns ", ColumnList(names), "; ",
        names_->whose(), " has ", ColumnList(names_->list())));
  }

  std::string Quoted(uint32_t file) const {
    return absl::StrCat("'", lines_.path(file), "'");
  }

  absl::Status NumberColumns() {
    ASSIGN_OR_RETURN(const std::string line, lines_.Read(0));
    std::vector<std::string> values;
    // A row that is no good is named when it is read.
    SplitColumns(line, format_, &values).IgnoreError();
    for (size_t i = 0; i < values.size(); ++i) values[i] = absl::StrCat(i);
    names_.emplace(Quoted(lines_.FileOf(0)), std::move(values));
    return absl::OkStatus();
  }

  absl::Status AssumeColumns(const Csv& config,
                             const std::vector<Csv::Feature>& wanted) {
    std::vector<std::string> names;
    const auto add = [&](const std::string& name) {
      if (!name.empty() && !absl::c_linear_search(names, name)) {
        names.push_back(name);
      }
    };
    for (const Csv::Feature& feature : wanted) {
      if (feature.columns().empty()) {
        return absl::InvalidArgumentError(
            "csv.columns is missing; with input.follow there may be no file "
            "yet that has them");
      }
      for (const std::string& name : feature.columns()) add(name);
      for (const std::string& name : feature.log_columns()) add(name);
      add(feature.list_of());
    }
    for (const Csv::Label& label : labels_) add(label.column());
    add(config.group());
    add(config.weight());
    names_.emplace("the job file", std::move(names));
    return absl::OkStatus();
  }

  // All but labels, group and weight.
  absl::StatusOr<google::protobuf::RepeatedPtrField<std::string>> OtherColumns(
      const Csv& config) const {
    google::protobuf::RepeatedPtrField<std::string> columns;
    for (const std::string& name : names_->list()) {
      const bool is_label = absl::c_any_of(
          labels_,
          [&](const Csv::Label& label) { return label.column() == name; });
      if (is_label || name == config.group() || name == config.weight()) {
        continue;
      }
      *columns.Add() = name;
    }
    if (!columns.empty()) return columns;
    return absl::InvalidArgumentError(
        absl::StrCat(names_->whose(), " has no column beside the label"));
  }

  // Their names differ.
  absl::Status AddSpec(const CsvFeature& feature) {
    const std::string& name = feature.spec().name;
    for (size_t f = 0; f < spec_.features.size(); ++f) {
      if (spec_.features[f].name != name) continue;
      const std::string& before = features_[f].key();
      const bool has_fixed_name =
          feature.key() == "csv.group" || feature.key() == "csv.weight";
      return absl::InvalidArgumentError(
          has_fixed_name
              ? absl::StrCat(feature.key(), " makes a feature '", name,
                             "', and ", before,
                             ".name gives the columns this name, too; choose "
                             "another one")
              : absl::StrCat(feature.key(), ".name and ", before, ".name are '",
                             Shortened(name),
                             "'; give each feature a name of its own"));
    }
    spec_.features.push_back(feature.spec());
    return absl::OkStatus();
  }

  TextLines lines_;
  const ColumnFormat format_;
  InputSpec spec_;
  absl::optional<ColumnNames> names_;
  std::vector<Csv::Label> labels_;
  std::vector<CsvFeature> features_;  // In the order of the spec.
  size_t wanted_ = 0;                 // The first ones: the job names them.
  std::vector<std::string> class_names_;
  uint32_t checksum_ = 0;
};

}  // namespace

OpenedSource OpenCsv(const std::string& directory,
                     const v1::InputSource::Csv& config) {
  ASSIGN_OR_RETURN(auto files, OpenFiles(directory, {config.files().begin(),
                                                     config.files().end()}));
  const std::string first = files[0]->path();
  ASSIGN_OR_RETURN(auto source, ReadCsv(std::move(files), config));
  RETURN_IF_ERROR(CheckHasExamples(*source, first, "row"));
  return source;
}

OpenedSource ReadCsv(InputFiles files, const v1::InputSource::Csv& config,
                     const std::vector<std::string>& columns) {
  ColumnFormat format;
  format.separator = config.separator() == "tab" ? "\t" : config.separator();
  format.quotes = !config.has_quotes() || config.quotes();
  if (format.separator.empty() || format.separator.size() > kMostSeparator ||
      format.separator.find_first_of("\r\n") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("csv.separator must be one to ", kMostSeparator,
                     " characters of a line, or tab; found '",
                     absl::CHexEscape(Shortened(config.separator())), "'"));
  }
  if (format.quotes && absl::StrContains(format.separator, '"')) {
    return absl::InvalidArgumentError(
        "csv.separator has a quote; give \"quotes\": false, too");
  }
  auto source = std::make_unique<CsvSource>(std::move(files), format, columns);
  RETURN_IF_ERROR(source->Open(config));
  return source;
}

}  // namespace paramd
