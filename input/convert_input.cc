#include "input/convert_input.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/setting.h"
#include "input/describe_meaning.h"
#include "input/stage.h"
#include "input/transform.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

using Records = v1::InputSource::Records;
using StageList = google::protobuf::RepeatedPtrField<v1::InputStage>;

// What a thread encodes before it hands its records over.
constexpr uint64_t kRunBytes = uint64_t{1} << 20;
constexpr uint64_t kMostInRun = 16384;

// The setting that a field of `message` is.
const v1::SettingOptions& SettingIn(const google::protobuf::Descriptor& message,
                                    const std::string& field) {
  return SettingOf(*message.FindFieldByName(field));
}

// As many as the job file's list may have.
size_t MostFeatures() {
  return SettingIn(*Records::descriptor(), "features").max_elements();
}
size_t MostDims() {
  return SettingIn(*v1::InputFeature::descriptor(), "dims").max_elements();
}

// What `prefetch` makes ahead unless the job file says how many.
uint32_t PrefetchedByDefault() {
  uint32_t batches = 0;
  const v1::SettingOptions& setting =
      SettingIn(*v1::InputStage::Prefetch::descriptor(), "batches");
  CHECK(absl::SimpleAtoi(setting.default_json(), &batches),
        "the setting has a default");
  return batches;
}

// Whether an example is the same behind this stage in each epoch, in training
// and in evaluation, and makes one record.
bool CanBePassed(const v1::InputStage& stage) {
  if (!IsOn(stage, /*training=*/true) || !IsOn(stage, /*training=*/false)) {
    return false;
  }
  switch (stage.kind_case()) {
    case v1::InputStage::kTake:
    case v1::InputStage::kSkip:
    case v1::InputStage::kFilter:
    case v1::InputStage::kNormalise:
    case v1::InputStage::kLog:
    case v1::InputStage::kCast:
    case v1::InputStage::kCrop:
    case v1::InputStage::kPad:
    case v1::InputStage::kResize:
    case v1::InputStage::kOneHot:
    case v1::InputStage::kTokenise:
    case v1::InputStage::kDecodeImage:
      return true;
    default:
      return false;
  }
}

// Whether what it draws follows from its place among the stages.
bool DrawsByPlace(const v1::InputStage& stage) {
  return stage.has_random_crop() || stage.has_flip() ||
         stage.has_rand_augment() || stage.has_random_brightness() ||
         stage.has_random_rotation() || stage.has_map();
}

int PassedOf(const StageList& stages) {
  return static_cast<int>(absl::c_find_if_not(stages, CanBePassed) -
                          stages.begin());
}

// Whether it must be the same for train and test. What `pad` fills with is
// compared only where both pad.
bool ChangesMeaning(const v1::InputStage& stage) {
  const auto* const kind =
      stage.GetDescriptor()->FindFieldByNumber(stage.kind_case());
  return !stage.has_pad() && !IsHarmlessStage(kind->name());
}

// Of the stages that are passed those that must be the same.
std::vector<std::string> MeaningsPassed(const StageList& stages) {
  std::vector<std::string> meanings;
  const int passed = PassedOf(stages);
  for (int i = 0; i < passed; ++i) {
    if (!ChangesMeaning(stages[i])) continue;
    meanings.push_back(stages[i].ShortDebugString());
  }
  return meanings;
}

int PassedWithoutMeaning(const StageList& stages) {
  const auto is_passed = [](const v1::InputStage& stage) {
    return CanBePassed(stage) && !ChangesMeaning(stage);
  };
  return static_cast<int>(absl::c_find_if_not(stages, is_passed) -
                          stages.begin());
}

StageList Behind(const StageList& stages, int passed) {
  return StageList(stages.begin() + passed, stages.end());
}

v1::InputFeature::Type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return v1::InputFeature::TYPE_FLOAT32;
    case DType::kFloat64:
      return v1::InputFeature::TYPE_FLOAT64;
    case DType::kInt32:
      return v1::InputFeature::TYPE_INT32;
    case DType::kInt64:
      return v1::InputFeature::TYPE_INT64;
    case DType::kUInt8:
      return v1::InputFeature::TYPE_UINT8;
    case DType::kBFloat16:
    case DType::kFloat16:
      break;
  }
  CHECK(false, "no feature is of two bytes");
  return v1::InputFeature::TYPE_UNSPECIFIED;
}

v1::InputSource SourceOfRecords(const Records& records,
                                const std::string& directory,
                                const StageList& stages) {
  v1::InputSource source;
  source.set_directory(directory);
  *source.mutable_records() = records;
  *source.mutable_stages() = stages;
  return source;
}

// Files of the short form, which are no longer read.
void ClearShortForm(v1::InputConfig* config) {
  config->clear_format();
  config->clear_directory();
  config->clear_train_images();
  config->clear_train_labels();
  config->clear_test_images();
  config->clear_test_labels();
}

// The part of an epoch that one thread encodes.
struct Run {
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string records;
  absl::Status status;
};

absl::Status CheckFitsRecord(const InputSpec& spec, const Example& example) {
  for (size_t f = 0; f < spec.features.size(); ++f) {
    const FeatureSpec& feature = spec.features[f];
    const OwnedTensor& value = example.values[f];
    if (value.dims() == feature.dims && value.dtype() == feature.dtype) {
      continue;
    }
    return absl::DataLossError(absl::StrCat(
        "'", feature.name, "' is ", ShapeText(value.dtype(), value.dims()),
        "; a record has ", ShapeText(feature.dtype, feature.dims)));
  }
  return absl::OkStatus();
}

void AppendRecord(const InputSpec& spec, const Example& example,
                  std::string* records) {
  for (size_t f = 0; f < spec.features.size(); ++f) {
    const absl::Span<const std::byte> bytes = example.values[f].bytes();
    records->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
}

void EncodeRun(const ExampleEncoding& encoding, Run* run) {
  const Pipeline& pipeline = encoding.pipeline;
  const InputSpec& spec = pipeline.Behind(encoding.passed).spec();
  Example example;
  run->records.clear();
  for (uint64_t offset = run->begin; offset < run->end; ++offset) {
    run->status = pipeline.ReadBehind(encoding.passed, offset, &example);
    if (run->status.ok() && !example.dropped) {
      run->status = pipeline.OnError(CheckFitsRecord(spec, example), &example);
    }
    if (!run->status.ok()) return;
    if (!example.dropped) AppendRecord(spec, example, &run->records);
  }
}

// Each on a thread of its own, but for the first.
void EncodeRuns(const ExampleEncoding& encoding, absl::Span<Run> runs) {
  std::vector<std::thread> threads;
  for (Run& run : runs.subspan(1)) {
    threads.emplace_back([&encoding, &run] { EncodeRun(encoding, &run); });
  }
  EncodeRun(encoding, &runs[0]);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

PassedStages StagesToPass(const v1::InputConfig& config) {
  const StageList& train = config.train().stages();
  const StageList& test = config.test().stages();
  for (const StageList* const stages : {&train, &test, &config.stages()}) {
    if (absl::c_any_of(*stages, DrawsByPlace)) return {};
  }
  PassedStages passed = {.train = PassedOf(train), .test = PassedOf(test)};
  if (passed.train == train.size() && passed.test == test.size()) {
    passed.shared = PassedOf(config.stages());
  } else if (config.has_test() &&
             MeaningsPassed(train) != MeaningsPassed(test)) {
    // What one of them has left, the other would have done already.
    passed.train = PassedWithoutMeaning(train);
    passed.test = PassedWithoutMeaning(test);
  }
  return passed;
}

bool GoesByFiles(const v1::InputConfig& config, const PassedStages& passed) {
  const auto any = [](const StageList& stages, int behind) {
    return std::any_of(
        stages.begin() + behind, stages.end(), [](const v1::InputStage& stage) {
          return stage.has_interleave() || stage.shuffle().files();
        });
  };
  return any(config.train().stages(), passed.train) ||
         any(config.test().stages(), passed.test) ||
         any(config.stages(), passed.shared);
}

absl::Status CheckConvertible(const v1::InputConfig& config) {
  if (config.has_follow() || config.train().has_kafka()) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.train().has_kafka() ? "input.train.kafka" : "input.follow",
        " brings examples while the job runs; what is converted has to be "
        "there before: name files that are complete"));
  }
  if (config.train().has_indices() || config.test().has_indices()) {
    return absl::InvalidArgumentError(
        "the examples of indices are a program's own: here are only their "
        "numbers, and nothing to convert");
  }
  return absl::OkStatus();
}

absl::Status CheckSameInEachEpoch(const Pipeline& pipeline) {
  const Variation variation = pipeline.source().variation();
  std::string why = variation.varies;
  if (why.empty() && variation.shuffled) {
    why = "one of its sources is shuffled";
  }
  if (why.empty() && !variation.drawn.empty()) {
    why = absl::StrCat("'", *variation.drawn.begin(),
                       "' is drawn anew in each epoch");
  }
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "records are the same in each epoch, and the source is not: ", why,
      "; convert its sources one by one"));
}

absl::StatusOr<Records> DescribeRecords(const InputSpec& spec,
                                        const InputSpec& training) {
  if (spec.features.size() > MostFeatures()) {
    return absl::InvalidArgumentError(
        absl::StrCat("examples have ", spec.features.size(),
                     " features; records have at most ", MostFeatures()));
  }
  Records records;
  for (const FeatureSpec& feature : spec.features) {
    const std::string shape = ShapeText(feature.dtype, feature.dims);
    if (feature.size() == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", feature.name, "' is ", shape,
          "; all records have the same size: bring examples to one shape by "
          "resize, crop or pad before any stage that shuffles, and put no "
          "stage that draws random numbers after it"));
    }
    if (feature.dims.size() > MostDims()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", feature.name, "' is ", shape,
          "; in a record it has at most ", MostDims(), " dimensions"));
    }
    const FeatureSpec* const trained = training.Find(feature.name);
    const uint32_t classes = trained == nullptr ? 0 : trained->classes;
    if (trained != nullptr && feature.classes > classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the test data have ", feature.classes, " classes of '",
                       feature.name, "'; those to train on have ", classes,
                       ": records say one number for both"));
    }
    v1::InputFeature* const described = records.add_features();
    described->set_name(feature.name);
    described->set_type(TypeOf(feature.dtype));
    for (const uint64_t d : feature.dims) {
      described->add_dims(static_cast<uint32_t>(d));
    }
    described->set_classes(trained == nullptr ? feature.classes : classes);
  }
  return records;
}

uint64_t RecordBytes(const InputSpec& spec) {
  uint64_t bytes = 0;
  for (const FeatureSpec& feature : spec.features) {
    bytes += feature.size() * SizeOf(feature.dtype);
  }
  return bytes;
}

v1::InputConfig InputOfRecords(const v1::InputConfig& config,
                               const PassedStages& passed,
                               const ConvertedSources& converted) {
  v1::InputConfig input = config;
  *input.mutable_stages() = Behind(config.stages(), passed.shared);
  if (!config.has_train()) ClearShortForm(&input);
  *input.mutable_train() =
      SourceOfRecords(converted.train, converted.directory,
                      Behind(config.train().stages(), passed.train));
  if (converted.test.has_value()) {
    *input.mutable_test() =
        SourceOfRecords(*converted.test, converted.directory,
                        Behind(config.test().stages(), passed.test));
  }
  // Without a stage examples to train on would be shuffled.
  const bool had_stages =
      !config.stages().empty() || !config.train().stages().empty();
  if (had_stages && input.stages().empty() && input.train().stages().empty()) {
    input.add_stages()->mutable_prefetch()->set_batches(PrefetchedByDefault());
  }
  return input;
}

absl::Status CheckReadAlike(const v1::InputConfig& input, const Pipeline& train,
                            const Pipeline& test) {
  // Of records the source itself says nothing but the names of its features.
  const auto meaning = [&input](const v1::InputSource& records, bool training,
                                const Pipeline& pipeline) {
    v1::InputConfig config = input;
    *config.mutable_stages() = records.stages();
    config.mutable_stages()->MergeFrom(input.stages());
    return DescribeMeaning(config, training, pipeline.source(),
                           pipeline.spec());
  };
  const std::string difference =
      MeaningDifference(meaning(input.test(), /*training=*/false, test),
                        meaning(input.train(), /*training=*/true, train));
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a job would refuse these records: those of input.test would have ",
      difference, "; put the stages that both pass into input.stages"));
}

absl::Status EncodeExamples(const ExampleEncoding& encoding, uint64_t begin,
                            uint64_t end,
                            absl::FunctionRef<absl::Status(
                                absl::string_view records, uint64_t examples)>
                                use) {
  const uint64_t bytes =
      RecordBytes(encoding.pipeline.Behind(encoding.passed).spec());
  const uint64_t each = std::clamp<uint64_t>(
      kRunBytes / std::max<uint64_t>(bytes, 1), 1, kMostInRun);
  std::vector<Run> runs(encoding.threads);
  while (begin < end) {
    size_t count = 0;
    for (; count < runs.size() && begin < end; ++count) {
      runs[count].begin = begin;
      begin = std::min(begin + each, end);
      runs[count].end = begin;
    }
    EncodeRuns(encoding, absl::MakeSpan(runs.data(), count));
    for (size_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(runs[i].status);
      RETURN_IF_ERROR(use(runs[i].records, runs[i].end - runs[i].begin));
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
