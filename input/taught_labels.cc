#include "input/taught_labels.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "input/order_stages.h"
#include "input/pipeline.h"

namespace paramd {
namespace {

constexpr uint32_t kNoRecord = std::numeric_limits<uint32_t>::max();

// Takes probabilities to a temperature. Those that are none stay none.
void Temper(double temperature, absl::Span<float> p) {
  if (temperature == 1 || p.empty()) return;
  // Of the largest one the power is 1, so the sum is neither 0 nor infinite.
  const double largest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (float& one : p) {
    one = static_cast<float>(std::pow(double{one} / largest, 1 / temperature));
    sum += double{one};
  }
  for (float& one : p) one = static_cast<float>(double{one} / sum);
}

// Of labels that are called so.
absl::Status Nothing(absl::string_view name, const std::string& where) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name, "' says nothing of ", where,
      ", which is trained on: label all of them, without threshold and "
      "per_class, or train on those alone that it names, by the stage relabel "
      "of the input"));
}

// The examples that the labels are of, all in their order: the first ones of
// what a stage of `training` gives in every epoch. INVALID_ARGUMENT if there
// are none such.
absl::StatusOr<std::unique_ptr<Stage>> FindLabelled(
    const LabelFileHeader& labels, absl::string_view name,
    const Pipeline& training) {
  if (training.growing() != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", name,
        "' is of examples that were there before, and input.follow brings "
        "others while the job runs: name the teacher's run or a checkpoint"));
  }
  const auto stages = training.stages();
  const v1::DataSet data = training.source().DescribeToLabel();
  absl::Status wrong;
  for (size_t i = 0; i < training.fixed(); ++i) {
    const Stage& stage = *stages[i];
    if (labels.examples > 0 && labels.examples <= stage.size()) {
      auto first = MakeSlice("labelled", stage, 0, labels.examples);
      if (labels.data == LabelledDataKey(data, *first)) return first;
    }
    const absl::Status status = CheckLabelled(labels, name, stage, data);
    // That others are as many says more.
    if (wrong.ok() || labels.examples == stage.size()) wrong = status;
  }
  if (!wrong.ok()) return wrong;
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name,
      "' goes by place, and the examples are not the same, or not at the same "
      "places, in each epoch: name the teacher's run or a checkpoint"));
}

// Whether an example behind all stages is one of the source.
absl::Status CheckWhole(absl::string_view name, const Pipeline& training) {
  if (!training.has_windows()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", name,
      "' names examples, and the stage window makes one of several: name "
      "the teacher's run or a checkpoint"));
}

// Whether labels that are called so have one of each example that the first
// epoch reads; `has` says whether of that number.
absl::Status CheckAll(absl::string_view name, const Pipeline& training,
                      absl::FunctionRef<bool(uint64_t)> has) {
  const uint64_t numbers = training.source().numbers();
  uint64_t number = 0;
  while (number < numbers && has(number)) ++number;
  // Of all that there are.
  if (number == numbers) return absl::OkStatus();
  const Stage& read = training.examples();
  for (uint64_t i = 0; i < read.size(); ++i) {
    const uint64_t index = read.IndexAt({.epoch = 0, .offset = i});
    if (!has(index)) return Nothing(name, training.source().Where(index));
  }
  return absl::OkStatus();
}

}  // namespace

TaughtLabels::TaughtLabels(std::unique_ptr<LabelFile> file, double temperature)
    : file_(std::move(file)), temperature_(temperature) {
  spec_.name = "taught";
  spec_.dims = {file_->header().classes};
}

absl::StatusOr<std::unique_ptr<const TaughtLabels>> TaughtLabels::Open(
    const std::string& path, const Pipeline& training, double temperature,
    absl::string_view label) {
  ASSIGN_OR_RETURN(std::unique_ptr<LabelFile> file, LabelFile::Open(path));
  RETURN_IF_ERROR(CheckWhole(path, training));
  RETURN_IF_ERROR(
      CheckClassNames(file->header(), path, training.meaning(), label));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stage> labelled,
                   FindLabelled(file->header(), path, training));
  std::unique_ptr<TaughtLabels> taught(
      new TaughtLabels(std::move(file), temperature));
  std::vector<uint32_t>& record_of = taught->record_of_;
  record_of.assign(training.source().numbers(), kNoRecord);
  const std::vector<uint32_t>& places = taught->file_->examples();
  // Of an example that is there several times each record says the same.
  for (uint32_t r = 0; r < places.size(); ++r) {
    const uint64_t index = labelled->IndexAt({.epoch = 0, .offset = places[r]});
    CHECK(index < record_of.size(), "numbers are below the source's");
    record_of[index] = r;
  }
  RETURN_IF_ERROR(CheckAll(path, training, [&](uint64_t index) {
    return record_of[index] != kNoRecord;
  }));
  return std::unique_ptr<const TaughtLabels>(std::move(taught));
}

absl::Status TaughtLabels::Read(uint64_t index, const ExampleNames& names,
                                absl::Span<float> out) const {
  CHECK(index < record_of_.size(), "an example of the source is asked for");
  const uint32_t record = record_of_[index];
  if (record == kNoRecord) return Nothing(file_->path(), names.Where(index));
  RETURN_IF_ERROR(file_->ReadProbabilities(record, out));
  Temper(temperature_, out);
  return absl::OkStatus();
}

absl::Status CheckWillTeach(const LabelFileHeader& labels,
                            absl::string_view name, const Pipeline& training) {
  RETURN_IF_ERROR(CheckWhole(name, training));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stage> labelled,
                   FindLabelled(labels, name, training));
  std::vector<bool> has(training.source().numbers());
  for (uint64_t place = 0; place < labelled->size(); ++place) {
    has[labelled->IndexAt({.epoch = 0, .offset = place})] = true;
  }
  return CheckAll(name, training, [&](uint64_t index) { return has[index]; });
}

}  // namespace paramd
