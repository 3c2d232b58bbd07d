#ifndef PARAMD_INPUT_TAUGHT_LABELS_H_
#define PARAMD_INPUT_TAUGHT_LABELS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "input/batch.h"
#include "input/label_file.h"
#include "input/stage.h"

namespace paramd {

class Pipeline;

// What a teacher says of the examples that a student is trained on, out of a
// file of its labels: the probabilities of each, found by its number in the
// source, so that it may be shuffled, repeated, or left out behind that.
//
// Holds 4 bytes for each example of the source and 8 for each record of the
// file, and reads probabilities when they are asked for. Thread-safe.
class TaughtLabels {
 public:
  // INVALID_ARGUMENT, naming the file, if it is no such file, or damaged; if it
  // is of other examples than the first ones of the source of `training`, or of
  // what stands there behind it, as take or filter, before any stage that
  // shuffles or repeats; if it says nothing of one that the first epoch reads;
  // if a stage makes one example of several; or if its classes are called
  // otherwise than those of `label`, the student's ("" stands for "label").
  // The system's code if it can't be read. REQUIRES: temperature > 0.
  static absl::StatusOr<std::unique_ptr<const TaughtLabels>> Open(
      const std::string& path, const Pipeline& training, double temperature,
      absl::string_view label = "");

  // A vector of float32, a number for each class.
  const FeatureSpec& spec() const { return spec_; }
  const LabelFileHeader& header() const { return file_->header(); }

  // Fills `out`, which has that many, with the probabilities p of the example
  // of this number, as those of outputs z divided by the temperature T: of
  // p = softmax(z) it is softmax(z / T) = p^(1/T) / sum(p^(1/T)). Powers and
  // sum are float64, and each result is rounded to float32 twice; what is 0
  // stays 0. At T = 1 they are the file's bits. INVALID_ARGUMENT, with the
  // example as `names` know it, if the file says nothing of it.
  absl::Status Read(uint64_t index, const ExampleNames& names,
                    absl::Span<float> out) const;

 private:
  TaughtLabels(std::unique_ptr<LabelFile> file, double temperature);

  const std::unique_ptr<LabelFile> file_;
  const double temperature_;
  FeatureSpec spec_;
  std::vector<uint32_t> record_of_;  // By number of an example.
};

// Whether a file of labels of this header, which is yet to be written, will say
// something of each example that `training` reads, if it leaves out none. The
// errors of Open, which call it by `name`.
absl::Status CheckWillTeach(const LabelFileHeader& labels,
                            absl::string_view name, const Pipeline& training);

}  // namespace paramd

#endif  // PARAMD_INPUT_TAUGHT_LABELS_H_
