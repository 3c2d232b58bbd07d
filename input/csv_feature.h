#ifndef PARAMD_INPUT_CSV_FEATURE_H_
#define PARAMD_INPUT_CSV_FEATURE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "input/batch.h"
#include "input/example.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// What the columns of rows of text are called.
class ColumnNames {
 public:
  // `whose`, for sentences: "'train.csv'".
  ColumnNames(std::string whose, std::vector<std::string> names);

  // INVALID_ARGUMENT if no column has this name, or several have.
  absl::StatusOr<size_t> Find(absl::string_view name) const;

  size_t size() const { return names_.size(); }
  const std::vector<std::string>& list() const { return names_; }
  const std::string& whose() const { return whose_; }

 private:
  std::string whose_;
  std::vector<std::string> names_;
  absl::flat_hash_map<std::string, size_t> places_;
  absl::flat_hash_set<std::string> twice_;
};

// How columns of a row of text become one feature. All of them hold texts, of
// which hashes are made, or all of them numbers.
//
// Thread-safe: immutable.
class CsvFeature {
 public:
  using Csv = v1::InputSource::Csv;
  enum class Kind : uint8_t { kNumber, kClass, kText };

  // `key` is what the job calls it: "csv", "csv.features[1]". INVALID_ARGUMENT
  // if there is no such column, or what it says does not go together.
  static absl::StatusOr<CsvFeature> Make(const Csv::Feature& config,
                                         std::string key,
                                         const ColumnNames& names);
  static absl::StatusOr<CsvFeature> MakeLabel(const Csv::Label& config,
                                              std::string key,
                                              const ColumnNames& names);
  // REQUIRES, of both: the config names one.
  static absl::StatusOr<CsvFeature> MakeGroup(const Csv& config,
                                              const ColumnNames& names);
  static absl::StatusOr<CsvFeature> MakeWeight(const Csv& config,
                                               const ColumnNames& names);

  const FeatureSpec& spec() const { return spec_; }
  const std::string& key() const { return key_; }
  Kind kind() const { return kind_; }
  // In the order of its values.
  std::vector<std::string> columns() const;

  // DATA_LOSS, "column 'x' needs a number; found 'one'". REQUIRES: the row has
  // as many columns as there are names.
  absl::Status Read(const std::vector<std::string>& row,
                    OwnedTensor* out) const;

 private:
  struct Column {
    std::string name;
    size_t place = 0;
    uint64_t salt = 0;  // Of the hash of its texts.
    bool log = false;   // Its texts are numbers, hashed by their logarithm.
    absl::optional<double> missing = {};  // What no text stands for.
  };

  CsvFeature(std::string key, Kind kind, const std::string& name, DType dtype)
      : key_(std::move(key)), kind_(kind) {
    spec_.name = name;
    spec_.dtype = dtype;
  }

  absl::Status AddColumns(const Csv::Feature& config, const ColumnNames& names);
  absl::Status AddColumn(const std::string& name, const ColumnNames& names);
  absl::Status ReadLogColumns(const Csv::Feature& config,
                              const ColumnNames& names);
  absl::Status ReadList(const Csv::Feature& config, const ColumnNames& names);
  absl::Status ReadMissing(const Csv::Feature& config);

  absl::Status ReadNumber(const Column& column, absl::string_view text,
                          float* out) const;
  absl::Status ReadClass(const Column& column, absl::string_view text,
                         int32_t* out) const;
  absl::Status ReadText(const Column& column, absl::string_view text, size_t i,
                        OwnedTensor* out) const;
  void ReadTexts(absl::string_view list, size_t i, OwnedTensor* out) const;
  void SetHash(absl::string_view text, uint64_t salt, size_t i,
               OwnedTensor* out) const;
  absl::Status Wrong(absl::string_view what) const;

  std::string key_;
  Kind kind_;
  FeatureSpec spec_;
  std::vector<Column> columns_;
  std::vector<std::string> class_names_;
  char list_separator_ = 0;
  uint32_t list_length_ = 0;  // 0: the last column is no list.
};

// The features that a job names, but labels, group and weight, with ranges of
// columns written out: those of csv.features, or the one that csv itself
// describes. INVALID_ARGUMENT if it names some in both ways, or one column
// twice.
absl::StatusOr<std::vector<v1::InputSource::Csv::Feature>> CsvFeaturesOf(
    const v1::InputSource::Csv& config);

// What is to be predicted, with the names of its features: csv.labels, or
// csv.label. INVALID_ARGUMENT if both are given, or what one says does not go
// together.
absl::StatusOr<std::vector<v1::InputSource::Csv::Label>> CsvLabelsOf(
    const v1::InputSource::Csv& config);

// What the job calls the label at `index`: "csv.label", "csv.labels[1]".
std::string CsvLabelKey(const v1::InputSource::Csv& config, size_t index);

// What the job calls the one at `index`: "csv", "csv.features[1]".
std::string CsvKey(const v1::InputSource::Csv& config, size_t index);

}  // namespace paramd

#endif  // PARAMD_INPUT_CSV_FEATURE_H_
