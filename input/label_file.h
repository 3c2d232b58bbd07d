#ifndef PARAMD_INPUT_LABEL_FILE_H_
#define PARAMD_INPUT_LABEL_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "input/file.h"
#include "input/stage.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// What a trained model says of examples, in a file: what `paramd label` writes
// and the stage `relabel` reads.
//
//   header   1024 bytes: one line of JSON, with spaces up to its end
//   records  little-endian, one after another:
//            int32 example     its place in what was labelled
//            int32 label       the class
//            float32 x classes the probabilities
//
// So input.train.records reads it too, with header_bytes 1024.
inline constexpr uint64_t kLabelHeaderBytes = 1024;

struct LabelFileHeader {
  uint64_t examples = 0;  // In what was labelled; records name some of them.
  uint64_t records = 0;
  uint32_t classes = 0;
  std::string data;   // LabelledDataKey of the examples.
  std::string model;  // Tells models apart; of paramd label, of a checkpoint.
  // ClassNamesKey of what the model was trained on; empty: not known.
  std::string class_names;
  uint32_t records_crc32c = 0;
};

// Of a file that paramd label writes, without a look at its records.
// INVALID_ARGUMENT, naming the file, if there is none or it is none of these;
// the system's code if it can't be read.
absl::StatusOr<LabelFileHeader> ReadLabelHeader(const std::string& path);

// 16 digits that tell the examples of a stage from others, or from the same
// ones in another order: of the source's, which `data` describes
// (DescribeToLabel), which are at which place. REQUIRES: every epoch has the
// same, and it does not grow.
std::string LabelledDataKey(const v1::DataSet& data, const Stage& examples);

// INVALID_ARGUMENT, a sentence that calls the labels by `name`, unless they are
// of these examples, in their order. `data` describes their source. REQUIRES:
// as LabelledDataKey.
absl::Status CheckLabelled(const LabelFileHeader& labels,
                           absl::string_view name, const Stage& examples,
                           const v1::DataSet& data);

// 16 digits that tell the names apart which data of this meaning give to the
// classes 0, 1, 2 and so on of a label ("" stands for "label"), by
// csv.class_names; empty: to none.
std::string ClassNamesKey(const v1::DataMeaning& meaning,
                          absl::string_view label);

// INVALID_ARGUMENT, a sentence that calls the labels by `name`, if both they
// and data of this meaning have names of classes, and not the same ones in the
// same order.
absl::Status CheckClassNames(const LabelFileHeader& labels,
                             absl::string_view name,
                             const v1::DataMeaning& meaning,
                             absl::string_view label);

// kLabelHeaderBytes. REQUIRES: data, model and class_names have at most 64
// bytes each.
std::string EncodeLabelHeader(const LabelFileHeader& header);

// REQUIRES: both numbers are below 2^31.
void AppendLabelRecord(uint32_t example, uint32_t label,
                       absl::Span<const float> probabilities,
                       std::string* records);

// Such a file, which was checked as a whole when it was opened. Holds 8 bytes
// for each record, and reads the rest when it is asked for. Thread-safe.
class LabelFile {
 public:
  // INVALID_ARGUMENT, naming the file, if there is none, or it is none of
  // these, or damaged; the system's code if it can't be read.
  static absl::StatusOr<std::unique_ptr<LabelFile>> Open(
      const std::string& path);

  const std::string& path() const { return file_->path(); }
  const LabelFileHeader& header() const { return header_; }
  // Of each record.
  const std::vector<uint32_t>& examples() const { return examples_; }
  const std::vector<uint32_t>& labels() const { return labels_; }

  // Fills `out`, a number for each class. REQUIRES: there is such a record.
  absl::Status ReadProbabilities(uint64_t record, absl::Span<float> out) const;

 private:
  LabelFile(std::unique_ptr<InputFile> file, LabelFileHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  uint64_t record_bytes() const;
  absl::Status Wrong(absl::string_view what) const;
  absl::Status ReadRecords();

  const std::unique_ptr<InputFile> file_;
  const LabelFileHeader header_;
  std::vector<uint32_t> examples_;
  std::vector<uint32_t> labels_;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_LABEL_FILE_H_
