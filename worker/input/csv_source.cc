#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "worker/input/file.h"
#include "worker/input/sources.h"

namespace paramd {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
constexpr uint64_t kMostLineBytes = uint64_t{16} << 20;
// What some programs put before a text in UTF-8.
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// A row of a file: where it begins, and its line.
struct Row {
  uint32_t file = 0;
  uint32_t line = 0;  // From 1.
  uint64_t begin = 0;
  uint32_t bytes = 0;
};

// The values of a line. False if a quote has no end.
bool SplitLine(absl::string_view line, char separator,
               std::vector<std::string>* values) {
  values->clear();
  size_t at = 0;
  for (;;) {
    std::string value;
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        if (at >= line.size()) return false;
        if (line[at] == '"') {
          if (at + 1 >= line.size() || line[at + 1] != '"') break;
          ++at;  // Two quotes are one.
        }
        value.push_back(line[at]);
      }
      ++at;
      if (at < line.size() && line[at] != separator) return false;
    } else {
      const size_t end = std::min(line.find(separator, at), line.size());
      value = std::string(line.substr(at, end - at));
      at = end;
    }
    values->push_back(std::move(value));
    if (at >= line.size()) return true;
    ++at;
  }
}

class CsvSource : public ExampleSource {
 public:
  CsvSource(std::vector<std::unique_ptr<InputFile>> files, char separator)
      : files_(std::move(files)), separator_(separator) {}

  absl::Status Open(const v1::InputSource::Csv& config) {
    for (uint32_t file = 0; file < files_.size(); ++file) {
      starts_.push_back(rows_.size());
      RETURN_IF_ERROR(FindRows(file));
      if (config.header() && rows_.size() > starts_.back()) {
        ASSIGN_OR_RETURN(const std::string line, LineOf(rows_[starts_.back()]));
        RETURN_IF_ERROR(ReadHeader(config, file, line));
        rows_.erase(rows_.begin() + static_cast<ptrdiff_t>(starts_.back()));
      }
      if (rows_.size() == starts_.back()) starts_.pop_back();  // Empty.
    }
    if (rows_.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", files_[0]->path(), "' holds no row"));
    }
    if (names_.empty()) RETURN_IF_ERROR(NumberColumns(config));
    class_names_ = {config.class_names().begin(), config.class_names().end()};
    spec_.features.push_back(
        {.name = config.name(), .dims = {columns_.size()}});
    if (config.hash_buckets() > 0 && config.hash_keys()) {
      return absl::InvalidArgumentError(
          "csv.hash_buckets and csv.hash_keys are both given; choose numbers "
          "below hash_buckets or whole hashes");
    }
    if (config.hash_buckets() > 0 || config.hash_keys()) {
      spec_.features[0].dtype =
          config.hash_keys() ? DType::kInt64 : DType::kInt32;
      spec_.features[0].classes = config.hash_buckets();
      for (const size_t column : columns_) {
        salts_.push_back(StableHash(names_[column], /*seed=*/0));
        logs_.push_back(absl::c_linear_search(config.log_columns(),
                                              names_[column]));
      }
    } else if (!config.log_columns().empty()) {
      return absl::InvalidArgumentError(
          "csv.log_columns need hash_buckets or hash_keys");
    }
    if (label_column_.has_value()) {
      FeatureSpec label = {.name = "label", .dims = {}};
      label.classes = class_names_.empty()
                          ? config.classes()
                          : static_cast<uint32_t>(class_names_.size());
      if (label.classes > 0) label.dtype = DType::kInt32;
      spec_.features.push_back(std::move(label));
    }
    ASSIGN_OR_RETURN(checksum_, ChecksumOf(files_));
    return absl::OkStatus();
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return rows_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  std::vector<uint64_t> FileStarts() const override { return starts_; }
  std::string Where(uint64_t index) const override {
    return Where(rows_[index]);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    const Row& row = rows_[index];
    ASSIGN_OR_RETURN(const std::string line, LineOf(row));
    std::vector<std::string> values;
    if (!SplitLine(line, separator_, &values)) {
      return absl::DataLossError(
          absl::StrCat(Where(row), ": a quote has no end"));
    }
    if (values.size() != names_.size()) {
      return absl::DataLossError(absl::StrCat(Where(row), ": has ",
                                              values.size(), " columns; ",
                                              names_.size(), " are needed"));
    }
    example->values.resize(spec_.features.size());
    const FeatureSpec& feature = spec_.features[0];
    example->values[0].Reset(feature.dtype, feature.dims);
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& value = values[columns_[i]];
      if (!salts_.empty()) {
        std::string category = value;
        if (logs_[i]) {
          ASSIGN_OR_RETURN(category, LogOf(row, columns_[i], value));
        }
        SetHash(i, category, &example->values[0]);
        continue;
      }
      ASSIGN_OR_RETURN(example->values[0].values<float>()[i],
                       NumberOf(row, columns_[i], value));
    }
    if (!label_column_.has_value()) return absl::OkStatus();
    return ReadLabel(row, values[*label_column_], &example->values[1]);
  }

 private:
  std::string Where(const Row& row) const {
    return absl::StrCat("'", files_[row.file]->path(), "' line ", row.line);
  }

  // Behind the byte order mark, if the file has one.
  absl::StatusOr<uint64_t> FirstByte(uint32_t file) const {
    std::string begin(kByteOrderMark.size(), '\0');
    if (files_[file]->size() < begin.size()) return 0;
    RETURN_IF_ERROR(files_[file]->Read(
        0, absl::MakeSpan(reinterpret_cast<std::byte*>(begin.data()),
                          begin.size())));
    return begin == kByteOrderMark ? begin.size() : 0;
  }

  absl::Status FindRows(uint32_t file) {
    std::string piece(kPieceBytes, '\0');
    ASSIGN_OR_RETURN(const uint64_t first, FirstByte(file));
    uint64_t begin = first;
    uint32_t line = 1;
    bool blank = true;
    const auto end_line = [&](uint64_t end) -> absl::Status {
      if (end - begin > kMostLineBytes) {
        return absl::DataLossError(absl::StrCat(
            "'", files_[file]->path(), "' line ", line, " has ", end - begin,
            " bytes; at most ", kMostLineBytes, " are admitted"));
      }
      if (!blank) {
        rows_.push_back(
            {file, line, begin, static_cast<uint32_t>(end - begin)});
      }
      return absl::OkStatus();
    };
    const uint64_t size = files_[file]->size();
    for (uint64_t at = first; at < size; at += kPieceBytes) {
      const uint64_t bytes = std::min(kPieceBytes, size - at);
      RETURN_IF_ERROR(files_[file]->Read(
          at,
          absl::MakeSpan(reinterpret_cast<std::byte*>(piece.data()), bytes)));
      for (uint64_t i = 0; i < bytes; ++i) {
        if (piece[i] == '\n') {
          RETURN_IF_ERROR(end_line(at + i));
          begin = at + i + 1;
          ++line;
          blank = true;
        } else if (!absl::ascii_isspace(static_cast<unsigned char>(piece[i]))) {
          blank = false;
        }
      }
    }
    return end_line(size);
  }

  absl::StatusOr<std::string> LineOf(const Row& row) const {
    std::string line(row.bytes, '\0');
    RETURN_IF_ERROR(files_[row.file]->Read(
        row.begin, absl::MakeSpan(reinterpret_cast<std::byte*>(line.data()),
                                  line.size())));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }

  absl::Status ReadHeader(const v1::InputSource::Csv& config, uint32_t file,
                          const std::string& line) {
    std::vector<std::string> names;
    if (!SplitLine(line, separator_, &names)) {
      return absl::DataLossError(absl::StrCat(
          "'", files_[file]->path(), "': a quote of the header has no end"));
    }
    if (names_.empty()) {
      names_ = std::move(names);
      return ChooseColumns(config, file);
    }
    if (names == names_) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("'", files_[file]->path(), "' has the columns ",
                     absl::StrJoin(names, ", "), "; '", files_[0]->path(),
                     "' has ", absl::StrJoin(names_, ", ")));
  }

  absl::Status NumberColumns(const v1::InputSource::Csv& config) {
    ASSIGN_OR_RETURN(const std::string line, LineOf(rows_[0]));
    std::vector<std::string> values;
    SplitLine(line, separator_, &values);
    for (size_t i = 0; i < values.size(); ++i) {
      names_.push_back(absl::StrCat(i));
    }
    return ChooseColumns(config, rows_[0].file);
  }

  absl::Status ChooseColumns(const v1::InputSource::Csv& config,
                             uint32_t file) {
    const auto find = [&](const std::string& name) -> absl::StatusOr<size_t> {
      const auto found = std::find(names_.begin(), names_.end(), name);
      if (found == names_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", files_[file]->path(), "' has no column '", name,
                         "'; it has ", absl::StrJoin(names_, ", ")));
      }
      return static_cast<size_t>(found - names_.begin());
    };
    if (!config.label().empty()) {
      ASSIGN_OR_RETURN(label_column_, find(config.label()));
    }
    for (const std::string& name : config.columns()) {
      ASSIGN_OR_RETURN(const size_t column, find(name));
      columns_.push_back(column);
    }
    for (size_t i = 0; config.columns().empty() && i < names_.size(); ++i) {
      if (label_column_ != i) columns_.push_back(i);
    }
    for (const std::string& name : config.log_columns()) {
      RETURN_IF_ERROR(find(name).status());
    }
    if (!columns_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "'", files_[file]->path(), "' has no column beside the label"));
  }

  void SetHash(size_t i, absl::string_view text, OwnedTensor* out) const {
    const uint64_t hash =
        StableHash(absl::StripAsciiWhitespace(text), salts_[i]);
    if (out->dtype() == DType::kInt64) {
      out->values<int64_t>()[i] = static_cast<int64_t>(hash);
      return;
    }
    out->values<int32_t>()[i] =
        static_cast<int32_t>(hash % spec_.features[0].classes);
  }

  // The category of a number of log_columns; none is one, too.
  absl::StatusOr<std::string> LogOf(const Row& row, size_t column,
                                    absl::string_view text) const {
    if (absl::StripAsciiWhitespace(text).empty()) return "";
    ASSIGN_OR_RETURN(const float number, NumberOf(row, column, text));
    if (!(number > 2)) return absl::StrCat(std::floor(number));
    const double log = std::log(number);
    return absl::StrCat("log ", std::floor(log * log));
  }

  absl::StatusOr<float> NumberOf(const Row& row, size_t column,
                                 absl::string_view text) const {
    const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
    float number = 0;
    if (absl::SimpleAtof(trimmed, &number)) return number;
    return absl::DataLossError(
        absl::StrCat(Where(row), ": column '", names_[column],
                     "' needs a number; found '", text.substr(0, 40), "'"));
  }

  absl::Status ReadLabel(const Row& row, const std::string& text,
                         OwnedTensor* out) const {
    const FeatureSpec& label = spec_.features[1];
    out->Reset(label.dtype, {});
    if (label.classes == 0) {
      ASSIGN_OR_RETURN(out->values<float>()[0],
                       NumberOf(row, *label_column_, text));
      return absl::OkStatus();
    }
    int64_t number = 0;
    const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
    if (!class_names_.empty()) {
      const auto found =
          std::find(class_names_.begin(), class_names_.end(), trimmed);
      if (found == class_names_.end()) {
        return absl::DataLossError(absl::StrCat(
            Where(row), ": column '", names_[*label_column_],
            "' has the class '", text.substr(0, 40), "'; the job knows ",
            absl::StrJoin(class_names_, ", ").substr(0, 200)));
      }
      number = found - class_names_.begin();
    } else if (!absl::SimpleAtoi(trimmed, &number)) {
      return absl::DataLossError(absl::StrCat(
          Where(row), ": column '", names_[*label_column_],
          "' needs a whole number; found '", text.substr(0, 40), "'"));
    }
    RETURN_IF_ERROR(CheckClass(label, number, [&] { return Where(row); }));
    out->values<int32_t>()[0] = static_cast<int32_t>(number);
    return absl::OkStatus();
  }

  const std::vector<std::unique_ptr<InputFile>> files_;
  const char separator_;
  InputSpec spec_;
  std::vector<Row> rows_;
  std::vector<uint64_t> starts_;
  std::vector<std::string> names_;  // Of all columns.
  std::vector<size_t> columns_;     // Of the feature.
  std::vector<uint64_t> salts_;     // Of their hashes; none: they are numbers.
  std::vector<bool> logs_;          // Whether they are of log_columns.
  absl::optional<size_t> label_column_;
  std::vector<std::string> class_names_;
  uint32_t checksum_ = 0;
};

}  // namespace

OpenedSource OpenCsv(const std::string& directory,
                     const v1::InputSource::Csv& config) {
  const std::string& separator = config.separator();
  if (separator != "tab" && separator.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the separator must be one character or tab; found '", separator, "'"));
  }
  ASSIGN_OR_RETURN(auto files, OpenFiles(directory, {config.files().begin(),
                                                     config.files().end()}));
  auto source = std::make_unique<CsvSource>(
      std::move(files), separator == "tab" ? '\t' : separator[0]);
  RETURN_IF_ERROR(source->Open(config));
  return source;
}

}  // namespace paramd
