#include "input/csv_feature.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/random.h"
#include "base/shorten.h"
#include "base/status_macros.h"
#include "input/sources.h"

namespace paramd {
namespace {

using Csv = v1::InputSource::Csv;
using Kind = CsvFeature::Kind;

constexpr char kDefaultName[] = "features";
constexpr uint32_t kMostOfRange = 65536;

// "a, b, c", cut off where it gets long.
std::string Listed(const std::vector<std::string>& names) {
  return Shortened(absl::StrJoin(names, ", "), 150);
}

Kind KindOf(const Csv::Feature& config) {
  if (config.hash_buckets() > 0 || config.hash_keys()) return Kind::kText;
  return config.classes() > 0 ? Kind::kClass : Kind::kNumber;
}

DType TypeOf(const Csv::Feature& config) {
  if (config.hash_keys()) return DType::kInt64;
  return KindOf(config) == Kind::kNumber ? DType::kFloat32 : DType::kInt32;
}

// The category of a number of log_columns; none is one, too.
std::string LogCategory(float number) {
  if (!(number > 2)) return absl::StrCat(std::floor(number));
  const double log = std::log(number);
  return absl::StrCat("log ", std::floor(log * log));
}

// "column 'x' needs a number; found 'one'".
absl::Status Needs(absl::string_view column, absl::string_view what,
                   absl::string_view text, absl::string_view more = "") {
  return absl::DataLossError(absl::StrCat("column '", Shortened(column),
                                          "' needs ", what, "; found '",
                                          Shortened(text), "'", more));
}

// Of "1-13" the names from 1 to 13; of another name itself.
absl::Status AddRange(const std::string& key, const std::string& name,
                      google::protobuf::RepeatedPtrField<std::string>* names) {
  const std::vector<absl::string_view> ends = absl::StrSplit(name, '-');
  uint32_t first = 0;
  uint32_t last = 0;
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &first) ||
      !absl::SimpleAtoi(ends[1], &last)) {
    *names->Add() = name;
    return absl::OkStatus();
  }
  if (last < first || last - first >= kMostOfRange) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, ".columns has '", Shortened(name),
        "'; a range goes from a column to a later one, over at most ",
        kMostOfRange));
  }
  for (uint64_t i = first; i <= last; ++i) *names->Add() = absl::StrCat(i);
  return absl::OkStatus();
}

// The one that is described without csv.features.
Csv::Feature ShortForm(const Csv& csv) {
  Csv::Feature feature;
  feature.set_name(csv.name());
  *feature.mutable_columns() = csv.columns();
  feature.set_hash_buckets(csv.hash_buckets());
  feature.set_hash_keys(csv.hash_keys());
  *feature.mutable_log_columns() = csv.log_columns();
  feature.set_list_column(csv.list_column());
  feature.set_list_separator(csv.list_separator());
  feature.set_list_length(csv.list_length());
  feature.set_list_of(csv.list_of());
  *feature.mutable_missing() = csv.missing();
  return feature;
}

// A key beside csv.features that each of them has; empty: none is given.
absl::string_view KeyBesideFeatures(const Csv& csv) {
  if (!csv.columns().empty()) return "columns";
  if (csv.hash_buckets() > 0) return "hash_buckets";
  if (csv.hash_keys()) return "hash_keys";
  if (!csv.log_columns().empty()) return "log_columns";
  if (!csv.list_column().empty()) return "list_column";
  if (!csv.list_of().empty()) return "list_of";
  if (!csv.missing().empty()) return "missing";
  const bool named = !csv.name().empty() && csv.name() != kDefaultName;
  return named ? "name" : "";
}

// A key beside csv.labels that each of them has; empty: none is given.
absl::string_view KeyBesideLabels(const Csv& csv) {
  if (!csv.label().empty()) return "label";
  if (csv.classes() > 0) return "classes";
  return csv.class_names().empty() ? "" : "class_names";
}

absl::Status CheckFeatureColumns(const std::vector<Csv::Label>& labels,
                                 const Csv::Feature& feature,
                                 const std::string& key) {
  absl::flat_hash_set<absl::string_view> names;
  for (const std::string& name : feature.columns()) {
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ".columns names '", Shortened(name), "' twice"));
    }
  }
  for (const Csv::Label& label : labels) {
    const absl::string_view which = labels.size() == 1 ? "the" : "a";
    if (names.contains(label.column())) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ".columns names '", Shortened(label.column()),
                       "', which is ", which,
                       " label: the model would be told what it is to "
                       "predict"));
    }
    if (feature.name() == label.name()) {
      return absl::InvalidArgumentError(
          absl::StrCat(key, ".name is '", Shortened(label.name()), "', as ",
                       which, " label is called; choose another one"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckLabel(const Csv::Label& label, const Csv& csv,
                        const std::string& key) {
  // Of csv.label they stand beside it.
  const std::string around = csv.labels().empty() ? "csv" : key;
  if (csv.group() == label.column()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "csv.group is '", Shortened(label.column()), "', which is ",
        csv.labels().empty() ? "the label" : "a label"));
  }
  if (csv.weight() == label.column()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "csv.weight is '", Shortened(label.column()), "', which is ",
        csv.labels().empty() ? "the label" : "a label"));
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const std::string& name : label.class_names()) {
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(around, ".class_names has '", Shortened(name),
                       "' twice: which of the two is meant?"));
    }
  }
  if (!names.empty() && label.classes() > 0 &&
      label.classes() != names.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(around, ".classes is ", label.classes(), ", and ",
                     names.size(), " class_names are given; leave one out"));
  }
  return absl::OkStatus();
}

}  // namespace

// ---- names ------------------------------------------------------------------

ColumnNames::ColumnNames(std::string whose, std::vector<std::string> names)
    : whose_(std::move(whose)), names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    if (!places_.insert({names_[i], i}).second) twice_.insert(names_[i]);
  }
}

absl::StatusOr<size_t> ColumnNames::Find(absl::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(whose_, " has no column '", Shortened(name), "'; it has ",
                     Listed(names_)));
  }
  if (twice_.contains(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat(whose_, " has the column '", Shortened(name),
                     "' twice; give each a name of its own"));
  }
  return found->second;
}

absl::StatusOr<std::vector<Csv::Feature>> CsvFeaturesOf(const Csv& config) {
  std::vector<Csv::Feature> features = {config.features().begin(),
                                        config.features().end()};
  if (features.empty()) features.push_back(ShortForm(config));
  const absl::string_view beside = KeyBesideFeatures(config);
  if (!config.features().empty() && !beside.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("csv.features and csv.", beside,
                     " are both given; say it of each of the features"));
  }
  ASSIGN_OR_RETURN(const std::vector<Csv::Label> labels, CsvLabelsOf(config));
  for (size_t i = 0; i < features.size(); ++i) {
    const std::string key = CsvKey(config, i);
    if (!config.header()) {
      const auto columns = features[i].columns();
      features[i].clear_columns();
      for (const std::string& name : columns) {
        RETURN_IF_ERROR(AddRange(key, name, features[i].mutable_columns()));
      }
    }
    RETURN_IF_ERROR(CheckFeatureColumns(labels, features[i], key));
  }
  return features;
}

absl::StatusOr<std::vector<Csv::Label>> CsvLabelsOf(const Csv& config) {
  std::vector<Csv::Label> labels = {config.labels().begin(),
                                    config.labels().end()};
  const absl::string_view beside = KeyBesideLabels(config);
  if (!labels.empty() && !beside.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("csv.labels and csv.", beside,
                     " are both given; say it of each of the labels"));
  }
  if (labels.empty() && !config.label().empty()) {
    Csv::Label& label = labels.emplace_back();
    label.set_column(config.label());
    label.set_name("label");
    label.set_classes(config.classes());
    *label.mutable_class_names() = config.class_names();
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    Csv::Label& label = labels[i];
    if (label.name().empty()) label.set_name(label.column());
    const std::string key = CsvLabelKey(config, i);
    for (size_t j = 0; j < i; ++j) {
      if (labels[j].column() != label.column()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(key, " and ", CsvLabelKey(config, j), " are both '",
                       Shortened(label.column()), "'; leave one out"));
    }
    RETURN_IF_ERROR(CheckLabel(label, config, key));
  }
  return labels;
}

std::string CsvLabelKey(const Csv& config, size_t index) {
  return config.labels().empty() ? "csv.label"
                                 : absl::StrCat("csv.labels[", index, "]");
}

std::string CsvKey(const Csv& config, size_t index) {
  return config.features().empty() ? "csv"
                                   : absl::StrCat("csv.features[", index, "]");
}

// ---- how they are read ------------------------------------------------------

absl::StatusOr<CsvFeature> CsvFeature::Make(const Csv::Feature& config,
                                            std::string key,
                                            const ColumnNames& names) {
  const Kind kind = KindOf(config);
  CsvFeature feature(std::move(key), kind, config.name(), TypeOf(config));
  if (config.hash_buckets() > 0 && config.hash_keys()) {
    return feature.Wrong(
        "hash_buckets and hash_keys are both given; choose numbers below "
        "hash_buckets or whole hashes");
  }
  if (kind == Kind::kText && config.classes() > 0) {
    return feature.Wrong(
        "classes and hashes are both given; choose whole numbers or texts");
  }
  feature.spec_.classes =
      kind == Kind::kText ? config.hash_buckets() : config.classes();
  RETURN_IF_ERROR(feature.AddColumns(config, names));
  RETURN_IF_ERROR(feature.ReadLogColumns(config, names));
  RETURN_IF_ERROR(feature.ReadList(config, names));
  RETURN_IF_ERROR(feature.ReadMissing(config));
  return feature;
}

absl::StatusOr<CsvFeature> CsvFeature::MakeLabel(const Csv::Label& config,
                                                 std::string key,
                                                 const ColumnNames& names) {
  const auto& class_names = config.class_names();
  const uint32_t classes = class_names.empty()
                               ? config.classes()
                               : static_cast<uint32_t>(class_names.size());
  CsvFeature label(std::move(key), classes > 0 ? Kind::kClass : Kind::kNumber,
                   config.name(),
                   classes > 0 ? DType::kInt32 : DType::kFloat32);
  label.spec_.classes = classes;
  label.class_names_ = {class_names.begin(), class_names.end()};
  RETURN_IF_ERROR(label.AddColumn(config.column(), names));
  return label;
}

absl::StatusOr<CsvFeature> CsvFeature::MakeGroup(const Csv& config,
                                                 const ColumnNames& names) {
  CsvFeature group("csv.group", Kind::kText, "group", DType::kInt64);
  RETURN_IF_ERROR(group.AddColumn(config.group(), names));
  return group;
}

absl::StatusOr<CsvFeature> CsvFeature::MakeWeight(const Csv& config,
                                                  const ColumnNames& names) {
  CsvFeature weight("csv.weight", Kind::kNumber, "weight", DType::kFloat32);
  RETURN_IF_ERROR(weight.AddColumn(config.weight(), names));
  return weight;
}

absl::Status CsvFeature::AddColumns(const Csv::Feature& config,
                                    const ColumnNames& names) {
  if (config.columns().empty()) return Wrong("columns is empty");
  for (const std::string& name : config.columns()) {
    RETURN_IF_ERROR(AddColumn(name, names));
  }
  spec_.dims = {columns_.size()};
  return absl::OkStatus();
}

absl::Status CsvFeature::AddColumn(const std::string& name,
                                   const ColumnNames& names) {
  ASSIGN_OR_RETURN(const size_t place, names.Find(name));
  columns_.push_back(
      {.name = name, .place = place, .salt = StableHash(name, /*seed=*/0)});
  return absl::OkStatus();
}

absl::Status CsvFeature::ReadLogColumns(const Csv::Feature& config,
                                        const ColumnNames& names) {
  if (config.log_columns().empty()) return absl::OkStatus();
  if (kind_ != Kind::kText) {
    return Wrong("log_columns need hash_buckets or hash_keys");
  }
  for (const std::string& name : config.log_columns()) {
    RETURN_IF_ERROR(names.Find(name).status());
  }
  for (Column& column : columns_) {
    column.log = absl::c_linear_search(config.log_columns(), column.name);
  }
  return absl::OkStatus();
}

absl::Status CsvFeature::ReadList(const Csv::Feature& config,
                                  const ColumnNames& names) {
  const std::string& list = config.list_column();
  const std::string& of = config.list_of();
  if (!of.empty()) RETURN_IF_ERROR(names.Find(of).status());
  if (list.empty()) {
    if (of.empty()) return absl::OkStatus();
    return Wrong(
        absl::StrCat("list_of is '", of, "', but no list_column is given"));
  }
  if (kind_ != Kind::kText) {
    return Wrong("list_column needs hash_buckets or hash_keys");
  }
  Column& last = columns_.back();
  if (list != last.name) {
    return Wrong(absl::StrCat("list_column is '", list,
                              "'; it must be the last of the columns, which "
                              "is '",
                              Shortened(last.name), "'"));
  }
  for (const std::string& name : {list, of}) {
    if (!absl::c_linear_search(config.log_columns(), name)) continue;
    return Wrong(
        absl::StrCat("log_columns has '", name,
                     "', whose texts a list has; they are hashed as they are"));
  }
  const std::string& separator = config.list_separator();
  if (separator.size() != 1) {
    return Wrong(absl::StrCat("list_separator must be one character; found '",
                              separator, "'"));
  }
  list_separator_ = separator[0];
  list_length_ = config.list_length();
  if (!of.empty()) last.salt = StableHash(of, /*seed=*/0);
  spec_.dims[0] += list_length_ - 1;
  return absl::OkStatus();
}

absl::Status CsvFeature::ReadMissing(const Csv::Feature& config) {
  const auto& missing = config.missing();
  if (missing.empty()) return absl::OkStatus();
  if (kind_ == Kind::kText) {
    return Wrong(
        "missing is of columns of numbers; with hash_buckets or hash_keys a "
        "column without text has a number of its own");
  }
  const size_t count = static_cast<size_t>(missing.size());
  if (count > 1 && count != columns_.size()) {
    return Wrong(absl::StrCat("missing has ", count, " numbers for ",
                              columns_.size(),
                              " columns; give one, or one for each"));
  }
  for (size_t i = 0; i < columns_.size(); ++i) {
    const double number = missing[count == 1 ? 0 : static_cast<int>(i)];
    if (kind_ == Kind::kClass && !(number >= 0 && number < spec_.classes &&
                                   number == std::floor(number))) {
      return Wrong(absl::StrCat("missing is ", number,
                                "; it must be a whole number from 0 to ",
                                spec_.classes - 1));
    }
    columns_[i].missing = number;
  }
  return absl::OkStatus();
}

absl::Status CsvFeature::Wrong(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(key_, ".", what));
}

std::vector<std::string> CsvFeature::columns() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  return names;
}

// ---- one row ----------------------------------------------------------------

absl::Status CsvFeature::Read(const std::vector<std::string>& row,
                              OwnedTensor* out) const {
  out->Reset(spec_.dtype, spec_.dims);
  const size_t lone = columns_.size() - (list_length_ > 0 ? 1 : 0);
  for (size_t i = 0; i < lone; ++i) {
    const Column& column = columns_[i];
    const std::string& text = row[column.place];
    switch (kind_) {
      case Kind::kNumber:
        RETURN_IF_ERROR(ReadNumber(column, text, &out->values<float>()[i]));
        break;
      case Kind::kClass:
        RETURN_IF_ERROR(ReadClass(column, text, &out->values<int32_t>()[i]));
        break;
      case Kind::kText:
        RETURN_IF_ERROR(ReadText(column, text, i, out));
    }
  }
  if (list_length_ > 0) ReadTexts(row[columns_.back().place], lone, out);
  return absl::OkStatus();
}

// One of which a loss can be made.
absl::Status CsvFeature::ReadNumber(const Column& column,
                                    absl::string_view text, float* out) const {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (trimmed.empty() && column.missing.has_value()) {
    *out = static_cast<float>(*column.missing);
    return absl::OkStatus();
  }
  if (!absl::SimpleAtof(trimmed, out)) {
    const bool may_be_missing = trimmed.empty() && !spec_.dims.empty();
    return Needs(column.name, "a number", text,
                 may_be_missing ? "; \"missing\": 0 would read that as 0" : "");
  }
  if (std::isfinite(*out)) return absl::OkStatus();
  return Needs(column.name, "a number that is finite in float32", text);
}

absl::Status CsvFeature::ReadClass(const Column& column, absl::string_view text,
                                   int32_t* out) const {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (!class_names_.empty()) {
    const auto found = absl::c_find(class_names_, trimmed);
    if (found == class_names_.end()) {
      return absl::DataLossError(absl::StrCat(
          "column '", Shortened(column.name), "' has the class '",
          Shortened(text), "'; the job knows ", Listed(class_names_)));
    }
    *out = static_cast<int32_t>(found - class_names_.begin());
    return absl::OkStatus();
  }
  if (trimmed.empty() && column.missing.has_value()) {
    *out = static_cast<int32_t>(*column.missing);
    return absl::OkStatus();
  }
  int64_t number = 0;
  if (!ParseWhole(trimmed, &number) || number < 0 ||
      number >= int64_t{spec_.classes}) {
    return Needs(column.name,
                 absl::StrCat("a whole number from 0 to ", spec_.classes - 1),
                 text);
  }
  *out = static_cast<int32_t>(number);
  return absl::OkStatus();
}

absl::Status CsvFeature::ReadText(const Column& column, absl::string_view text,
                                  size_t i, OwnedTensor* out) const {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  if (!column.log || trimmed.empty()) {
    SetHash(trimmed, column.salt, i, out);
    return absl::OkStatus();
  }
  float number = 0;
  if (!absl::SimpleAtof(trimmed, &number)) {
    return Needs(column.name, "a number", text);
  }
  SetHash(LogCategory(number), column.salt, i, out);
  return absl::OkStatus();
}

// Texts of a list, from value `i` on, and padding behind them.
void CsvFeature::ReadTexts(absl::string_view list, size_t i,
                           OwnedTensor* out) const {
  for (const absl::string_view text :
       absl::StrSplit(list, list_separator_, absl::SkipWhitespace())) {
    if (i == out->size()) break;
    SetHash(absl::StripAsciiWhitespace(text), columns_.back().salt, i++, out);
  }
  for (; i < out->size(); ++i) {
    if (out->dtype() == DType::kInt64) {
      out->values<int64_t>()[i] = -1;
    } else {
      out->values<int32_t>()[i] = -1;
    }
  }
}

void CsvFeature::SetHash(absl::string_view text, uint64_t salt, size_t i,
                         OwnedTensor* out) const {
  const uint64_t hash = StableHash(text, salt);
  if (out->dtype() == DType::kInt64) {
    out->values<int64_t>()[i] = static_cast<int64_t>(hash);
  } else {
    out->values<int32_t>()[i] = static_cast<int32_t>(hash % spec_.classes);
  }
}

}  // namespace paramd
