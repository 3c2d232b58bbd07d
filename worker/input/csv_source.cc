#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/random.h"
#include "base/shorten.h"
#include "base/status_macros.h"
#include "worker/input/columns.h"
#include "worker/input/file.h"
#include "worker/input/sources.h"
#include "worker/input/text_lines.h"

namespace paramd {
namespace {

constexpr size_t kMostSeparator = 16;

// "a, b, c", cut off where it gets long.
std::string Listed(const std::vector<std::string>& names, size_t most = 150) {
  return Shortened(absl::StrJoin(names, ", "), most);
}

// What the job itself says in two ways.
absl::Status CheckNames(const v1::InputSource::Csv& config) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(what);
  };
  absl::flat_hash_set<absl::string_view> names;
  for (const std::string& name : config.columns()) {
    if (!names.insert(name).second) {
      return wrong(
          absl::StrCat("csv.columns names '", Shortened(name), "' twice"));
    }
  }
  const std::string& label = config.label();
  if (!label.empty() && names.contains(label)) {
    return wrong(absl::StrCat("csv.columns names '", Shortened(label),
                              "', which is the label: the model would be told "
                              "what it is to predict"));
  }
  if (!label.empty() && config.group() == label) {
    return wrong(absl::StrCat("csv.group is '", Shortened(label),
                              "', which is the label"));
  }
  if (!label.empty() && config.name() == "label") {
    return wrong(
        "csv.name is 'label', as the label is called; choose another one");
  }
  names.clear();
  for (const std::string& name : config.class_names()) {
    if (!names.insert(name).second) {
      return wrong(absl::StrCat("csv.class_names has '", Shortened(name),
                                "' twice: which of the two is meant?"));
    }
  }
  if (!names.empty() && config.classes() > 0 &&
      config.classes() != names.size()) {
    return wrong(absl::StrCat("csv.classes is ", config.classes(), ", and ",
                              names.size(),
                              " class_names are given; leave one out"));
  }
  return absl::OkStatus();
}

class CsvSource : public ExampleSource {
 public:
  CsvSource(std::vector<std::unique_ptr<InputFile>> files,
            const ColumnFormat& format)
      : lines_(std::move(files), {.columns = format}), format_(format) {}

  absl::Status Open(const v1::InputSource::Csv& config) {
    RETURN_IF_ERROR(CheckNames(config));
    RETURN_IF_ERROR(ReadMissing(config));
    for (uint32_t file = 0; file < lines_.files(); ++file) {
      std::string header;
      RETURN_IF_ERROR(
          lines_.AddFile(file, config.header() ? &header : nullptr));
      if (header.empty()) continue;
      RETURN_IF_ERROR(ReadHeader(config, file, header));
    }
    if (names_.empty()) {
      const bool is_any = lines_.files() == 0 || !config.columns().empty();
      if (lines_.size() == 0 && !is_any) return absl::OkStatus();
      RETURN_IF_ERROR(lines_.size() > 0 ? NumberColumns(config)
                                        : AssumeColumns(config));
    }
    class_names_ = {config.class_names().begin(), config.class_names().end()};
    spec_.features.push_back(
        {.name = config.name(), .dims = {columns_.size()}});
    RETURN_IF_ERROR(ReadHashes(config));
    RETURN_IF_ERROR(ReadList(config));
    if (label_column_.has_value()) {
      FeatureSpec label = {.name = "label", .dims = {}};
      label.classes = class_names_.empty()
                          ? config.classes()
                          : static_cast<uint32_t>(class_names_.size());
      if (label.classes > 0) label.dtype = DType::kInt32;
      spec_.features.push_back(std::move(label));
    }
    if (group_column_.has_value()) {
      if (spec_.Find("group") != nullptr) {
        return absl::InvalidArgumentError(
            "csv.group makes a feature 'group', and csv.name gives the columns "
            "this name, too; choose another one");
      }
      spec_.features.push_back(
          {.name = "group", .dtype = DType::kInt64, .dims = {}});
    }
    ASSIGN_OR_RETURN(checksum_, lines_.Checksum());
    return absl::OkStatus();
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return lines_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  SourceNames Names() const override {
    SourceNames names;
    for (const size_t column : columns_) {
      names.columns.push_back(names_[column]);
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
    std::vector<std::string> values;
    const absl::Status split = SplitColumns(line, format_, &values);
    if (!split.ok()) {
      return absl::DataLossError(
          absl::StrCat(Where(index), ": ", split.message()));
    }
    if (values.size() != names_.size()) {
      const bool has_line_end = line.find_first_of("\r\n") != line.npos;
      return absl::DataLossError(absl::StrCat(
          Where(index), ": has ", values.size(), " columns; ", names_.size(),
          " are needed", has_line_end ? kIfNoQuotes : ""));
    }
    example->values.resize(spec_.features.size());
    RETURN_IF_ERROR(ReadColumns(index, values, &example->values[0]));
    if (group_column_.has_value()) {
      OwnedTensor& group = example->values.back();
      group.Reset(DType::kInt64, {});
      group.values<int64_t>()[0] = static_cast<int64_t>(
          HashOf(values[*group_column_], SaltOf(*group_column_)));
    }
    if (!label_column_.has_value()) return absl::OkStatus();
    return ReadLabel(index, values[*label_column_], &example->values[1]);
  }

 private:
  absl::Status ReadHeader(const v1::InputSource::Csv& config, uint32_t file,
                          const std::string& line) {
    std::vector<std::string> names;
    const absl::Status split = SplitColumns(line, format_, &names);
    if (!split.ok()) {
      return absl::DataLossError(absl::StrCat(
          "'", lines_.path(file), "', its header: ", split.message()));
    }
    if (names_.empty()) {
      names_ = std::move(names);
      return ChooseColumns(config, Quoted(file));
    }
    if (names == names_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(
        "'", lines_.path(file), "' has the columns ", Listed(names, 80), "; '",
        lines_.path(0), "' has ", Listed(names_, 80)));
  }

  std::string Quoted(uint32_t file) const {
    return absl::StrCat("'", lines_.path(file), "'");
  }

  absl::Status NumberColumns(const v1::InputSource::Csv& config) {
    ASSIGN_OR_RETURN(const std::string line, lines_.Read(0));
    std::vector<std::string> values;
    // A row that is no good is named when it is read.
    SplitColumns(line, format_, &values).IgnoreError();
    for (size_t i = 0; i < values.size(); ++i) {
      names_.push_back(absl::StrCat(i));
    }
    return ChooseColumns(config, Quoted(lines_.FileOf(0)));
  }

  // Where no file says: those that the config names.
  absl::Status AssumeColumns(const v1::InputSource::Csv& config) {
    if (config.columns().empty()) {
      return absl::InvalidArgumentError(
          "csv.columns is missing; with input.follow there may be no file yet "
          "that has them");
    }
    const auto add = [this](const std::string& name) {
      if (!name.empty() && !absl::c_linear_search(names_, name)) {
        names_.push_back(name);
      }
    };
    names_ = {config.columns().begin(), config.columns().end()};
    for (const std::string& name : config.log_columns()) add(name);
    for (const std::string& name :
         {config.label(), config.group(), config.list_of()}) {
      add(name);
    }
    return ChooseColumns(config, "the job file");
  }

  // Each name that is used must mean one column.
  absl::Status ChooseColumns(const v1::InputSource::Csv& config,
                             const std::string& whose) {
    absl::flat_hash_map<absl::string_view, size_t> places;
    absl::flat_hash_set<absl::string_view> twice;
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!places.insert({names_[i], i}).second) twice.insert(names_[i]);
    }
    const auto find = [&](const std::string& name) -> absl::StatusOr<size_t> {
      const auto found = places.find(name);
      if (found == places.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat(whose, " has no column '", Shortened(name),
                         "'; it has ", Listed(names_)));
      }
      if (twice.contains(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat(whose, " has the column '", Shortened(name),
                         "' twice; give each a name of its own"));
      }
      return found->second;
    };
    if (!config.label().empty()) {
      ASSIGN_OR_RETURN(label_column_, find(config.label()));
    }
    if (!config.group().empty()) {
      ASSIGN_OR_RETURN(group_column_, find(config.group()));
    }
    for (const std::string& name : config.columns()) {
      ASSIGN_OR_RETURN(const size_t column, find(name));
      columns_.push_back(column);
    }
    for (size_t i = 0; config.columns().empty() && i < names_.size(); ++i) {
      if (label_column_ == i || group_column_ == i) continue;
      RETURN_IF_ERROR(find(names_[i]).status());
      columns_.push_back(i);
    }
    for (const std::string& name : config.log_columns()) {
      RETURN_IF_ERROR(find(name).status());
    }
    if (!config.list_of().empty()) {
      RETURN_IF_ERROR(find(config.list_of()).status());
    }
    if (!columns_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(whose, " has no column beside the label"));
  }

  absl::Status ReadMissing(const v1::InputSource::Csv& config) {
    if (config.missing().empty()) return absl::OkStatus();
    if (config.hash_buckets() > 0 || config.hash_keys()) {
      return absl::InvalidArgumentError(
          "csv.missing is of columns of numbers; with hash_buckets or "
          "hash_keys a column without text has a number of its own");
    }
    missing_ = static_cast<float>(config.missing(0));
    return absl::OkStatus();
  }

  // How texts become numbers, if they do.
  absl::Status ReadHashes(const v1::InputSource::Csv& config) {
    if (config.hash_buckets() > 0 && config.hash_keys()) {
      return absl::InvalidArgumentError(
          "csv.hash_buckets and csv.hash_keys are both given; choose numbers "
          "below hash_buckets or whole hashes");
    }
    if (config.hash_buckets() == 0 && !config.hash_keys()) {
      const absl::string_view needs =
          !config.log_columns().empty()   ? "log_columns"
          : !config.list_column().empty() ? "list_column"
                                          : "";
      if (needs.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("csv.", needs, " need", needs.back() == 's' ? "" : "s",
                       " hash_buckets or hash_keys"));
    }
    FeatureSpec& feature = spec_.features[0];
    feature.dtype = config.hash_keys() ? DType::kInt64 : DType::kInt32;
    feature.classes = config.hash_buckets();
    for (const size_t column : columns_) {
      salts_.push_back(SaltOf(column));
      logs_.push_back(
          absl::c_linear_search(config.log_columns(), names_[column]));
    }
    return absl::OkStatus();
  }

  // Whether the last column is a list, and how its texts are hashed.
  absl::Status ReadList(const v1::InputSource::Csv& config) {
    const std::string& list = config.list_column();
    const std::string& of = config.list_of();
    if (list.empty()) {
      if (of.empty()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          "csv.list_of is '", of, "', but no list_column is given"));
    }
    const std::string& last = names_[columns_.back()];
    if (list != last) {
      return absl::InvalidArgumentError(
          absl::StrCat("csv.list_column is '", list,
                       "'; it must be the last of the columns, which is '",
                       Shortened(last), "'"));
    }
    for (const std::string& name : {list, of}) {
      if (!absl::c_linear_search(config.log_columns(), name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("csv.log_columns has '", name,
                       "', whose texts a list "
                       "has; they are hashed as they are"));
    }
    const std::string& separator = config.list_separator();
    if (separator.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "csv.list_separator must be one character; found '", separator, "'"));
    }
    list_separator_ = separator[0];
    list_length_ = config.list_length();
    if (!of.empty()) salts_.back() = StableHash(of, /*seed=*/0);
    spec_.features[0].dims[0] += list_length_ - 1;
    return absl::OkStatus();
  }

  absl::Status ReadColumns(uint64_t index,
                           const std::vector<std::string>& values,
                           OwnedTensor* out) const {
    const FeatureSpec& feature = spec_.features[0];
    out->Reset(feature.dtype, feature.dims);
    const size_t lone = columns_.size() - (list_length_ > 0 ? 1 : 0);
    for (size_t i = 0; i < lone; ++i) {
      const std::string& value = values[columns_[i]];
      if (salts_.empty() && missing_.has_value() &&
          absl::StripAsciiWhitespace(value).empty()) {
        out->values<float>()[i] = *missing_;
      } else if (salts_.empty()) {
        ASSIGN_OR_RETURN(out->values<float>()[i],
                         FiniteOf(index, columns_[i], value));
      } else if (logs_[i]) {
        ASSIGN_OR_RETURN(const std::string category,
                         LogOf(index, columns_[i], value));
        SetHash(i, HashOf(category, salts_[i]), out);
      } else {
        SetHash(i, HashOf(value, salts_[i]), out);
      }
    }
    if (list_length_ == 0) return absl::OkStatus();
    size_t end = lone;
    for (const absl::string_view text :
         absl::StrSplit(values[columns_.back()], list_separator_,
                        absl::SkipWhitespace())) {
      if (end == feature.dims[0]) break;
      SetHash(end++, HashOf(text, salts_.back()), out);
    }
    for (; end < feature.dims[0]; ++end) SetPadding(end, out);
    return absl::OkStatus();
  }

  uint64_t SaltOf(size_t column) const {
    return StableHash(names_[column], /*seed=*/0);
  }
  static uint64_t HashOf(absl::string_view text, uint64_t salt) {
    return StableHash(absl::StripAsciiWhitespace(text), salt);
  }

  void SetHash(size_t i, uint64_t hash, OwnedTensor* out) const {
    if (out->dtype() == DType::kInt64) {
      out->values<int64_t>()[i] = static_cast<int64_t>(hash);
      return;
    }
    out->values<int32_t>()[i] =
        static_cast<int32_t>(hash % spec_.features[0].classes);
  }

  static void SetPadding(size_t i, OwnedTensor* out) {
    if (out->dtype() == DType::kInt64) {
      out->values<int64_t>()[i] = -1;
    } else {
      out->values<int32_t>()[i] = -1;
    }
  }

  // The category of a number of log_columns; none is one, too.
  absl::StatusOr<std::string> LogOf(uint64_t index, size_t column,
                                    absl::string_view text) const {
    if (absl::StripAsciiWhitespace(text).empty()) return "";
    ASSIGN_OR_RETURN(const float number, NumberOf(index, column, text));
    if (!(number > 2)) return absl::StrCat(std::floor(number));
    const double log = std::log(number);
    return absl::StrCat("log ", std::floor(log * log));
  }

  absl::StatusOr<float> NumberOf(uint64_t index, size_t column,
                                 absl::string_view text) const {
    const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
    float number = 0;
    if (absl::SimpleAtof(trimmed, &number)) return number;
    const bool may_be_missing = trimmed.empty() && column != label_column_;
    return absl::DataLossError(absl::StrCat(
        NeedsIn(index, column, "a number", text),
        may_be_missing ? "; \"missing\": 0 would read that as 0" : ""));
  }

  // "'a.csv' line 3: column 'x' needs a number; found 'one'".
  std::string NeedsIn(uint64_t index, size_t column, absl::string_view what,
                      absl::string_view text) const {
    return absl::StrCat(Where(index), ": column '", Shortened(names_[column]),
                        "' needs ", what, "; found '", Shortened(text), "'");
  }

  // One of which a loss can be made.
  absl::StatusOr<float> FiniteOf(uint64_t index, size_t column,
                                 absl::string_view text) const {
    ASSIGN_OR_RETURN(const float number, NumberOf(index, column, text));
    if (std::isfinite(number)) return number;
    return absl::DataLossError(
        NeedsIn(index, column, "a number that is finite in float32", text));
  }

  absl::Status ReadLabel(uint64_t index, const std::string& text,
                         OwnedTensor* out) const {
    const FeatureSpec& label = spec_.features[1];
    out->Reset(label.dtype, {});
    if (label.classes == 0) {
      ASSIGN_OR_RETURN(out->values<float>()[0],
                       FiniteOf(index, *label_column_, text));
      return absl::OkStatus();
    }
    int64_t number = 0;
    const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
    if (!class_names_.empty()) {
      const auto found =
          std::find(class_names_.begin(), class_names_.end(), trimmed);
      if (found == class_names_.end()) {
        return absl::DataLossError(absl::StrCat(
            Where(index), ": column '", Shortened(names_[*label_column_]),
            "' has the class '", Shortened(text), "'; the job knows ",
            Listed(class_names_)));
      }
      number = found - class_names_.begin();
    } else if (!ParseWhole(trimmed, &number)) {
      return absl::DataLossError(
          NeedsIn(index, *label_column_, "a whole number", text));
    }
    RETURN_IF_ERROR(CheckClass(label, number, [&] { return Where(index); }));
    out->values<int32_t>()[0] = static_cast<int32_t>(number);
    return absl::OkStatus();
  }

  TextLines lines_;
  const ColumnFormat format_;
  InputSpec spec_;
  std::vector<std::string> names_;  // Of all columns.
  std::vector<size_t> columns_;     // Of the feature.
  std::vector<uint64_t> salts_;     // Of their hashes; none: they are numbers.
  std::vector<bool> logs_;          // Whether they are of log_columns.
  char list_separator_ = 0;
  uint32_t list_length_ = 0;  // 0: the last column is no list.
  absl::optional<float> missing_;
  absl::optional<size_t> label_column_;
  absl::optional<size_t> group_column_;
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

OpenedSource ReadCsv(InputFiles files, const v1::InputSource::Csv& config) {
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
  auto source = std::make_unique<CsvSource>(std::move(files), format);
  RETURN_IF_ERROR(source->Open(config));
  return source;
}

}  // namespace paramd
