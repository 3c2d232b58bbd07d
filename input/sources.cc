#include "input/sources.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "input/file.h"
#include "input/transform.h"
#include "input/unpack.h"

namespace paramd {
namespace {

// Beyond it not each whole number is a double.
constexpr double kMostWhole = 9007199254740992.0;

// The file that example `index` lies in. `starts`: the number of the first of
// each, and behind the last file that of all. REQUIRES: index < starts.back().
size_t FileOf(const std::vector<uint64_t>& starts, uint64_t index) {
  return static_cast<size_t>(
      std::upper_bound(starts.begin(), starts.end(), index) - starts.begin() -
      1);
}

// ---- raw records ------------------------------------------------------------

class RecordSource : public ExampleSource {
 public:
  RecordSource(InputSpec spec, uint64_t header_bytes, uint64_t record_bytes,
               std::vector<std::unique_ptr<InputFile>> files,
               std::vector<uint64_t> starts, uint32_t checksum)
      : spec_(std::move(spec)),
        header_bytes_(header_bytes),
        record_bytes_(record_bytes),
        files_(std::move(files)),
        starts_(std::move(starts)),
        checksum_(checksum) {}

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return starts_.back(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  std::vector<uint64_t> FileStarts() const override {
    return {starts_.begin(), starts_.end() - 1};
  }
  std::string Where(uint64_t index) const override {
    const size_t file = FileOf(starts_, index);
    return absl::StrCat("'", files_[file]->path(), "' record ",
                        index - starts_[file]);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    const size_t file = FileOf(starts_, index);
    // One call of the system, however many features a record has.
    example->scratch.Reset(DType::kUInt8, {record_bytes_});
    const absl::Span<std::byte> record = example->scratch.bytes();
    RETURN_IF_ERROR(files_[file]->Read(
        header_bytes_ + (index - starts_[file]) * record_bytes_, record));
    size_t at = 0;
    example->values.resize(spec_.features.size());
    for (size_t f = 0; f < spec_.features.size(); ++f) {
      const FeatureSpec& feature = spec_.features[f];
      OwnedTensor& value = example->values[f];
      value.Reset(feature.dtype, feature.dims);
      const absl::Span<std::byte> bytes = value.bytes();
      std::copy_n(&record[at], bytes.size(), bytes.data());
      at += bytes.size();
      if (feature.classes == 0) continue;
      for (uint64_t i = 0; i < value.size(); ++i) {
        RETURN_IF_ERROR(CheckClass(feature,
                                   static_cast<int64_t>(NumberAt(value, i)),
                                   [&] { return Where(index); }));
      }
    }
    return absl::OkStatus();
  }

 private:
  const InputSpec spec_;
  const uint64_t header_bytes_;
  const uint64_t record_bytes_;
  const std::vector<std::unique_ptr<InputFile>> files_;
  const std::vector<uint64_t> starts_;  // And the end of the last file.
  const uint32_t checksum_;
};

// ---- text -------------------------------------------------------------------

class TextSource : public ExampleSource {
 public:
  TextSource(uint64_t context, uint64_t stride,
             std::vector<std::unique_ptr<InputFile>> files,
             std::vector<uint64_t> starts, uint32_t checksum)
      : context_(context),
        stride_(stride),
        files_(std::move(files)),
        starts_(std::move(starts)),
        checksum_(checksum) {
    for (const char* name : {"tokens", "label"}) {
      spec_.features.push_back({.name = name,
                                .dtype = DType::kInt32,
                                .dims = {context},
                                .classes = 256});
    }
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return starts_.back(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  std::vector<uint64_t> FileStarts() const override {
    return {starts_.begin(), starts_.end() - 1};
  }
  std::string Where(uint64_t index) const override {
    const size_t file = FileOf(starts_, index);
    return absl::StrCat("'", files_[file]->path(), "' at byte ",
                        (index - starts_[file]) * stride_);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    const size_t file = FileOf(starts_, index);
    example->scratch.Reset(DType::kUInt8, {context_ + 1});
    const absl::Span<std::byte> bytes = example->scratch.bytes();
    RETURN_IF_ERROR(
        files_[file]->Read((index - starts_[file]) * stride_, bytes));
    example->values.resize(2);
    for (size_t f = 0; f < 2; ++f) {
      example->values[f].Reset(DType::kInt32, {context_});
      const absl::Span<int32_t> out = example->values[f].values<int32_t>();
      for (size_t i = 0; i < context_; ++i) {
        out[i] = static_cast<int32_t>(bytes[i + f]);
      }
    }
    return absl::OkStatus();
  }

 private:
  InputSpec spec_;
  const uint64_t context_;
  const uint64_t stride_;
  const std::vector<std::unique_ptr<InputFile>> files_;
  const std::vector<uint64_t> starts_;
  const uint32_t checksum_;
};

// ---- random numbers ---------------------------------------------------------

class SyntheticSource : public ExampleSource {
 public:
  SyntheticSource(InputSpec spec, uint64_t examples)
      : spec_(std::move(spec)), examples_(examples) {}

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return examples_; }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, examples_, 0);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(spec_.features.size());
    for (size_t f = 0; f < spec_.features.size(); ++f) {
      const FeatureSpec& feature = spec_.features[f];
      OwnedTensor& value = example->values[f];
      value.Reset(feature.dtype, feature.dims);
      RandomStream random(StableHash(feature.name, index));
      const uint64_t classes = feature.classes > 0 ? feature.classes : 256;
      switch (feature.dtype) {
        case DType::kFloat32:
          for (float& v : value.values<float>()) v = random.Uniform();
          break;
        case DType::kFloat64:
          for (double& v : value.values<double>()) v = random.Uniform();
          break;
        case DType::kInt32:
          for (int32_t& v : value.values<int32_t>()) {
            v = static_cast<int32_t>(random.Below(classes));
          }
          break;
        case DType::kInt64:
          for (int64_t& v : value.values<int64_t>()) {
            v = static_cast<int64_t>(random.Below(classes));
          }
          break;
        case DType::kUInt8:
          for (uint8_t& v : value.values<uint8_t>()) {
            v = static_cast<uint8_t>(
                random.Below(std::min<uint64_t>(classes, 256)));
          }
          break;
        case DType::kBFloat16:
        case DType::kFloat16:
          CHECK(false, "no feature is of two bytes");
      }
    }
    return absl::OkStatus();
  }

 private:
  const InputSpec spec_;
  const uint64_t examples_;
};

class IndexSource : public ExampleSource {
 public:
  explicit IndexSource(uint64_t examples) : examples_(examples) {}

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return examples_; }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, examples_, 0);
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(1);
    example->values[0].Reset(DType::kInt64, {});
    example->values[0].values<int64_t>()[0] = static_cast<int64_t>(index);
    return absl::OkStatus();
  }

 private:
  const InputSpec spec_ = {
      {{.name = "index", .dtype = DType::kInt64, .dims = {}}}};
  const uint64_t examples_;
};

absl::Status CheckNothingMissing(
    const google::protobuf::RepeatedPtrField<v1::InputFeature>& features) {
  for (const v1::InputFeature& feature : features) {
    if (feature.missing().empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("feature '", feature.name(),
                     "' has a value where it is missing; only in a record of "
                     "tfrecord it can be"));
  }
  return absl::OkStatus();
}

absl::Status CheckKnownShapes(const InputSpec& spec) {
  for (const FeatureSpec& feature : spec.features) {
    if (feature.size() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", feature.name, "' is ",
                       ShapeText(feature.dtype, feature.dims),
                       "; here every dimension must be known"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

OpenedSource OpenRecords(const std::string& directory,
                         const v1::InputSource::Records& config) {
  ASSIGN_OR_RETURN(auto files, OpenFiles(directory, {config.files().begin(),
                                                     config.files().end()}));
  const std::string first = files[0]->path();
  ASSIGN_OR_RETURN(auto source, ReadRecords(std::move(files), config));
  RETURN_IF_ERROR(CheckHasExamples(*source, first, "record"));
  return source;
}

OpenedSource ReadRecords(InputFiles files,
                         const v1::InputSource::Records& config) {
  RETURN_IF_ERROR(CheckNothingMissing(config.features()));
  ASSIGN_OR_RETURN(InputSpec spec, ToSpec(config.features()));
  RETURN_IF_ERROR(CheckKnownShapes(spec));
  uint64_t record = 0;
  for (const FeatureSpec& feature : spec.features) {
    record += feature.size() * SizeOf(feature.dtype);
  }
  std::vector<uint64_t> starts = {0};
  for (auto& file : files) {
    // Numbers may begin as a packed file does, by chance.
    if (absl::EndsWith(file->path(), ".gz")) {
      ASSIGN_OR_RETURN(file, Unpacked(std::move(file)));
    }
    const uint64_t header = config.header_bytes();
    if (file->size() < header || (file->size() - header) % record != 0) {
      return absl::DataLossError(absl::StrCat(
          "'", file->path(), "' has ", file->size(), " bytes; ", header,
          " bytes of header and records of ", record, " bytes are needed"));
    }
    starts.push_back(starts.back() + (file->size() - header) / record);
  }
  ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(files));
  return std::make_unique<RecordSource>(std::move(spec), config.header_bytes(),
                                        record, std::move(files),
                                        std::move(starts), checksum);
}

OpenedSource OpenText(const std::string& directory,
                      const v1::InputSource::Text& config) {
  const uint64_t context = config.context();
  const uint64_t stride = config.stride() > 0 ? config.stride() : context;
  if (context == 0) {
    return absl::InvalidArgumentError("the text has a context of 0 bytes");
  }
  ASSIGN_OR_RETURN(auto files, OpenFiles(directory, {config.files().begin(),
                                                     config.files().end()}));
  std::vector<uint64_t> starts = {0};
  for (auto& file : files) {
    ASSIGN_OR_RETURN(file, Unpacked(std::move(file)));
    const uint64_t windows =
        file->size() > context ? (file->size() - context - 1) / stride + 1 : 0;
    starts.push_back(starts.back() + windows);
  }
  if (starts.back() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", files[0]->path(), "' has ", files[0]->size(),
                     " bytes; an example needs ", context + 1));
  }
  ASSIGN_OR_RETURN(const uint32_t checksum, ChecksumOf(files));
  return std::make_unique<TextSource>(context, stride, std::move(files),
                                      std::move(starts), checksum);
}

OpenedSource OpenSynthetic(const v1::InputSource::Synthetic& config) {
  RETURN_IF_ERROR(CheckNothingMissing(config.features()));
  ASSIGN_OR_RETURN(InputSpec spec, ToSpec(config.features()));
  RETURN_IF_ERROR(CheckKnownShapes(spec));
  if (config.examples() == 0) {
    return absl::InvalidArgumentError("the synthetic input has no examples");
  }
  return std::make_unique<SyntheticSource>(std::move(spec), config.examples());
}

OpenedSource OpenIndices(const v1::InputSource::Indices& config) {
  if (config.examples() == 0) {
    return absl::InvalidArgumentError(
        "the input is numbers of examples (input.train.indices), but nobody "
        "says how many: a program with a model and data of its own does; run "
        "that, or name the data in input");
  }
  return std::make_unique<IndexSource>(config.examples());
}

absl::StatusOr<InputSpec> ToSpec(
    const google::protobuf::RepeatedPtrField<v1::InputFeature>& features) {
  InputSpec spec;
  for (const v1::InputFeature& feature : features) {
    FeatureSpec one = {.name = feature.name(),
                       .dtype = ToDType(feature.type()),
                       .dims = {feature.dims().begin(), feature.dims().end()},
                       .classes = feature.classes()};
    if (spec.Find(one.name) != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("two features have the name '", one.name, "'"));
    }
    if (one.classes > 0 &&
        (one.dtype == DType::kFloat32 || one.dtype == DType::kFloat64)) {
      return absl::InvalidArgumentError(
          absl::StrCat("feature '", one.name, "' has classes; it is ",
                       NameOf(one.dtype), ", classes need whole numbers"));
    }
    spec.features.push_back(std::move(one));
  }
  if (spec.features.empty()) {
    return absl::InvalidArgumentError("the input has no features");
  }
  RETURN_IF_ERROR(CheckSizes(spec));
  return spec;
}

bool ParseWhole(absl::string_view text, int64_t* number) {
  if (absl::SimpleAtoi(text, number)) return true;
  double real = 0;
  if (!absl::SimpleAtod(text, &real) || !(std::abs(real) <= kMostWhole) ||
      real != std::floor(real)) {
    return false;
  }
  *number = static_cast<int64_t>(real);
  return true;
}

absl::Status CheckHasExamples(const ExampleSource& source,
                              absl::string_view path, absl::string_view what) {
  if (source.size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", path, "' holds no ", what));
}

v1::DataSet DescribeFiles(const InputSpec& spec, uint64_t examples,
                          uint32_t checksum) {
  v1::DataSet data;
  data.set_examples(examples);
  const FeatureSpec& first = spec.features[0];
  for (const uint64_t dimension : first.dims) {
    data.add_example_shape(dimension);
  }
  data.set_example_type(NameOf(first.dtype));
  const FeatureSpec* label = spec.Find("label");
  if (label != nullptr) data.set_classes(label->classes);
  data.set_examples_crc32c(checksum);
  return data;
}

absl::Status CheckClass(const FeatureSpec& feature, int64_t label,
                        absl::FunctionRef<std::string()> where) {
  if (feature.classes == 0 || (label >= 0 && label < feature.classes)) {
    return absl::OkStatus();
  }
  const bool is_list = !feature.dims.empty() && feature.name != "label";
  if (is_list && label == -1) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(where(), ": '", feature.name, "' is ", label,
                   "; it must be at least 0 and below ", feature.classes,
                   is_list ? ", or -1 for padding" : ""));
}

}  // namespace paramd
