#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"

#include "base/shorten.h"
#include "base/status_macros.h"
#include "input/file.h"
#include "input/sources.h"
#include "input/text_lines.h"

namespace paramd {
namespace {

// What an int32 holds.
constexpr uint64_t kMostIndex = std::numeric_limits<int32_t>::max();

// The least power of two above `index`: training and test files seldom differ
// in it, where their largest indices differ.
uint64_t BoundAbove(uint64_t index) {
  uint64_t bound = 1;
  while (bound <= index) bound *= 2;
  return bound;
}

class LibSvmSource : public ExampleSource {
 public:
  LibSvmSource(std::vector<std::unique_ptr<InputFile>> files,
               const v1::InputSource::LibSvm& config,
               const SourceOptions& options)
      : lines_(std::move(files), {.columns = {}, .comment = '#'}),
        labels_(options.labels),
        columns_(config.columns()),
        first_index_(config.first_index()) {
    spec_.features.resize(labels_ ? 2 : 1);
    FeatureSpec& feature = spec_.features[0];
    feature.name = config.name();
    feature.dtype = columns_ > 0 ? DType::kFloat32 : DType::kInt32;
    feature.dims = {columns_ > 0 ? columns_ : config.list_length()};
    if (!labels_) return;
    FeatureSpec& label = spec_.features[1];
    label.name = "label";
    label.dtype = config.classes() > 0 ? DType::kInt32 : DType::kFloat32;
    label.classes = config.classes();
  }

  absl::Status Open() {
    uint64_t largest = 0;
    for (uint32_t file = 0; file < lines_.files(); ++file) {
      RETURN_IF_ERROR(lines_.AddFile(
          file, [&](uint64_t index, absl::string_view line) -> absl::Status {
            if (columns_ == 0) FindLargest(index, line, &largest);
            return CheckLabelKind(index, line);
          }));
    }
    if (columns_ == 0) {
      spec_.features[0].classes = static_cast<uint32_t>(BoundAbove(largest));
    }
    ASSIGN_OR_RETURN(checksum_, lines_.Checksum());
    return absl::OkStatus();
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return lines_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  std::vector<uint64_t> FileStarts() const override { return lines_.starts(); }
  std::string Where(uint64_t index) const override {
    return lines_.Where(index);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    ASSIGN_OR_RETURN(const std::string line, lines_.Read(index));
    example->values.resize(spec_.features.size());
    OwnedTensor& out = example->values[0];
    out.Reset(spec_.features[0].dtype, spec_.features[0].dims);
    absl::string_view label;
    if (columns_ > 0) {
      const auto values = out.values<float>();
      std::fill(values.begin(), values.end(), 0.0f);
      RETURN_IF_ERROR(Parse(index, line, &label, [&](uint64_t at, float value) {
        values[at] = value;
      }));
    } else {
      const auto list = out.values<int32_t>();
      std::fill(list.begin(), list.end(), -1);
      size_t end = 0;
      RETURN_IF_ERROR(Parse(index, line, &label, [&](uint64_t at, float) {
        if (end < list.size()) list[end++] = static_cast<int32_t>(at);
      }));
    }
    if (!labels_) return absl::OkStatus();
    return ReadLabel(index, label, &example->values[1]);
  }

 private:
  // Of what is on a line, places from 0 on and their values.
  using Use = absl::FunctionRef<void(uint64_t at, float value)>;

  absl::Status Parse(uint64_t index, absl::string_view line,
                     absl::string_view* label, Use use) const {
    // What stands behind # is a comment.
    const std::vector<absl::string_view> words =
        absl::StrSplit(line.substr(0, line.find('#')), absl::ByAnyChar(" \t"),
                       absl::SkipWhitespace());
    size_t w = 0;
    // Where none is needed the line may begin with one.
    if (!words.empty() && (labels_ || !absl::StrContains(words[0], ':'))) {
      *label = words[w++];
    } else if (labels_) {
      return absl::DataLossError(absl::StrCat(Where(index), ": has no label"));
    }
    // Which query an example belongs to, as rankings have it, is passed over.
    if (w < words.size() && absl::StartsWith(words[w], "qid:")) ++w;
    uint64_t next = first_index_;
    for (; w < words.size(); ++w) {
      const size_t colon = words[w].find(':');
      const absl::string_view number = words[w].substr(0, colon);
      uint64_t at = 0;
      float value = 0;
      if (colon == absl::string_view::npos || number.empty() ||
          !absl::ascii_isdigit(static_cast<unsigned char>(number[0])) ||
          !absl::SimpleAtoi(number, &at) ||
          !absl::SimpleAtof(words[w].substr(colon + 1), &value) ||
          !std::isfinite(value)) {
        return absl::DataLossError(absl::StrCat(Where(index),
                                                ": needs index:value; found '",
                                                Shortened(words[w]), "'"));
      }
      RETURN_IF_ERROR(Check(index, at, value, next));
      use(at - first_index_, value);
      next = at + 1;
    }
    return absl::OkStatus();
  }

  // `next`: the least index that may come.
  absl::Status Check(uint64_t index, uint64_t at, float value,
                     uint64_t next) const {
    const auto has = [&](absl::string_view what) {
      return absl::DataLossError(
          absl::StrCat(Where(index), ": has index ", at, what));
    };
    if (at < first_index_) {
      return has("; the least is 1, unless \"first_index\" is 0");
    }
    if (at < next) {
      return has(absl::StrCat(" after ", next - 1,
                              "; indices must ascend, each once"));
    }
    const uint64_t most = (columns_ > 0 ? columns_ - 1 : kMostIndex - 1);
    if (at - first_index_ > most) {
      return has(absl::StrCat(
          "; the largest ",
          columns_ > 0 ? absl::StrCat("of ", columns_, " columns is ")
                       : std::string("that is admitted is "),
          most + first_index_));
    }
    if (columns_ == 0 && value != 1) {
      return has(absl::StrCat(
          " with the value ", value,
          "; without \"columns\" an example is a list of indices, and all "
          "values are 1"));
    }
    return absl::OkStatus();
  }

  // Lines that can't be read are left to who reads them.
  void FindLargest(uint64_t index, absl::string_view line,
                   uint64_t* largest) const {
    absl::string_view label;
    Parse(index, line, &label, [&](uint64_t at, float) {
      *largest = std::max(*largest, at);
    }).IgnoreError();
  }

  // Of two classes the one that is not 1 is -1 or 0. A file with both has three
  // classes, or means nothing by one of them.
  absl::Status CheckLabelKind(uint64_t index, absl::string_view line) {
    if (!labels_ || spec_.features[1].classes != 2) return absl::OkStatus();
    line = absl::StripLeadingAsciiWhitespace(line);
    int64_t label = 0;
    if (!ParseWhole(line.substr(0, line.find_first_of(" \t#")), &label) ||
        (label != 0 && label != -1)) {
      return absl::OkStatus();
    }
    if (!lesser_.has_value()) lesser_ = {label, index};
    if (lesser_->first == label) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(Where(index), ": the label is ", label, ", and ",
                     Where(lesser_->second), " has ", lesser_->first,
                     "; two classes are -1 and 1, or 0 and 1, in all files"));
  }

  absl::Status ReadLabel(uint64_t index, absl::string_view text,
                         OwnedTensor* out) const {
    const FeatureSpec& label = spec_.features[1];
    out->Reset(label.dtype, {});
    int64_t number = 0;
    const bool whole = label.classes > 0;
    if (whole ? !ParseWhole(text, &number)
              : !absl::SimpleAtof(text, &out->values<float>()[0]) ||
                    !std::isfinite(out->values<float>()[0])) {
      return absl::DataLossError(absl::StrCat(
          Where(index), ": the label needs a ", whole ? "whole " : "",
          "number; found '", Shortened(text), "'"));
    }
    if (!whole) return absl::OkStatus();
    if (label.classes == 2 && number == -1) number = 0;
    RETURN_IF_ERROR(CheckClass(label, number, [&] { return Where(index); }));
    out->values<int32_t>()[0] = static_cast<int32_t>(number);
    return absl::OkStatus();
  }

  TextLines lines_;
  const bool labels_;
  const uint64_t columns_;
  const uint64_t first_index_;
  InputSpec spec_;
  // The label that is not 1, of two, and the line that has it first.
  absl::optional<std::pair<int64_t, uint64_t>> lesser_;
  uint32_t checksum_ = 0;
};

}  // namespace

OpenedSource OpenLibSvm(const std::string& directory,
                        const v1::InputSource::LibSvm& config,
                        const SourceOptions& options) {
  ASSIGN_OR_RETURN(auto files, OpenFiles(directory, {config.files().begin(),
                                                     config.files().end()}));
  const std::string first = files[0]->path();
  ASSIGN_OR_RETURN(auto source, ReadLibSvm(std::move(files), config, options));
  RETURN_IF_ERROR(CheckHasExamples(*source, first, "line"));
  return source;
}

OpenedSource ReadLibSvm(InputFiles files, const v1::InputSource::LibSvm& config,
                        const SourceOptions& options) {
  if (config.name() == "label") {
    return absl::InvalidArgumentError(
        "libsvm.name is 'label', as the label is called; choose another one");
  }
  auto source =
      std::make_unique<LibSvmSource>(std::move(files), config, options);
  RETURN_IF_ERROR(source->Open());
  return source;
}

}  // namespace paramd
