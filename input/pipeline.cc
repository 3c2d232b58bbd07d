#include "input/pipeline.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "input/cache_key.h"
#include "input/cache_stage.h"
#include "input/describe_meaning.h"
#include "input/own_map.h"
#include "input/relabel_stage.h"
#include "input/window_stage.h"

namespace paramd {
namespace {

using v1::InputStage;

// An order names examples by 32 bits.
constexpr uint64_t kMostOrdered = 0xffffffff;
constexpr uint64_t kMegabyte = 1000000;
// Skipped examples that are logged one by one.
constexpr uint64_t kMostLogged = 10;
// Examples that are looked at to learn what a batch has: a filter may drop
// some.
constexpr uint64_t kMostProbed = 1000;

std::string NameOf(const InputStage& stage) {
  const auto* oneof = InputStage::descriptor()->FindOneofByName("kind");
  const auto* field =
      stage.GetReflection()->GetOneofFieldDescriptor(stage, oneof);
  return field == nullptr ? "?" : field->name();
}

// A transform as a stage: before the batch each example passes on its own.
class TransformStage : public Stage {
 public:
  TransformStage(const Stage& upstream, std::unique_ptr<Transform> transform)
      : Stage(transform->name(), transform->spec(), upstream.size()),
        upstream_(upstream),
        transform_(std::move(transform)) {}

  uint64_t SizeIn(uint64_t epoch) const override {
    return upstream_.SizeIn(epoch);
  }
  std::vector<uint64_t> FileStarts(uint64_t epoch) const override {
    return upstream_.FileStarts(epoch);
  }

  absl::Status GetFeature(const ExamplePlace& place, size_t feature,
                          Example* example) const override {
    RETURN_IF_ERROR(upstream_.GetFeature(place, feature, example));
    if (!transform_->Changes(feature)) return absl::OkStatus();
    return transform_->Apply(place, example);
  }
  uint64_t IndexAt(const ExamplePlace& place) const override {
    return upstream_.IndexAt(place);
  }

 protected:
  absl::Status DoGet(const ExamplePlace& place,
                     Example* example) const override {
    RETURN_IF_ERROR(upstream_.Get(place, example));
    if (example->dropped) return absl::OkStatus();
    return transform_->Apply(place, example);
  }

 private:
  const Stage& upstream_;
  const std::unique_ptr<Transform> transform_;
};

}  // namespace

// Follows the stages of a config and makes them.
class Pipeline::Builder {
 public:
  // Both outlive it.
  Builder(Pipeline* pipeline, const v1::InputConfig& config,
          const Options& options)
      : pipeline_(*pipeline),
        config_(config),
        options_(options),
        variation_(pipeline->variation_) {}

  absl::Status Add(const InputStage& stage) {
    ++position_;
    if (!IsOn(stage, options_.training)) return absl::OkStatus();
    const absl::Status status = stage.has_filter()   ? AddFilter(stage)
                                : IsTransform(stage) ? AddTransform(stage)
                                                     : AddOther(stage);
    // Of data, it names what it was found in.
    if (status.ok() || absl::IsDataLoss(status)) return status;
    return absl::Status(status.code(),
                        absl::StrCat("stage ", position_, " of the input, ",
                                     NameOf(stage), ": ", status.message()));
  }

  absl::Status AddShuffle(const InputStage::Shuffle& config) {
    RETURN_IF_ERROR(CheckOrder());
    const bool reshuffle = !config.has_reshuffle() || config.reshuffle();
    if (config.files()) {
      Push(MakeFileShuffle(last(), ShuffleSeed(), reshuffle));
    }
    if (!config.files() || config.buffer() > 0) {
      Push(MakeShuffle(last(), ShuffleSeed(), config.buffer(), reshuffle));
    }
    variation_.shuffled |= reshuffle;
    variation_.seeded = true;
    return absl::OkStatus();
  }

  // Windows of several lengths are no lists that a batch could keep apart.
  absl::Status CheckWindows() const {
    if (short_windows_.empty() || pipeline_.padding_.has_value()) {
      return absl::OkStatus();
    }
    for (const FeatureSpec& feature : spec().features) {
      if (!feature.dims.empty() && feature.dims[0] == 0) {
        return absl::InvalidArgumentError(short_windows_);
      }
    }
    return absl::OkStatus();
  }

  // Layers and losses read real numbers as float32; NumPy's are float64 unless
  // told.
  absl::Status CastDoubles() {
    const InputSpec before = spec();
    for (const FeatureSpec& feature : before.features) {
      if (feature.dtype != DType::kFloat64) continue;
      InputStage stage;
      stage.mutable_cast()->set_feature(feature.name);
      stage.mutable_cast()->set_type(v1::InputFeature::TYPE_FLOAT32);
      stage.mutable_cast()->set_scale(1);
      RETURN_IF_ERROR(AddTransform(stage));
    }
    return absl::OkStatus();
  }

 private:
  const Stage& last() const { return *pipeline_.stages_.back(); }
  const InputSpec& spec() const {
    return pipeline_.late_.empty() ? last().spec()
                                   : pipeline_.late_.back()->spec();
  }
  void Push(std::unique_ptr<Stage> stage) {
    pipeline_.stages_.push_back(std::move(stage));
  }

  // The first shuffle has the seed itself: the order that jobs always had.
  uint64_t ShuffleSeed() {
    const uint64_t number = shuffles_++;
    return number == 0 ? options_.seed
                       : StableHash("another shuffle", options_.seed + number);
  }

  // Whether the examples can be put into another order.
  absl::Status CheckOrder() const {
    if (last().size() <= kMostOrdered) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", last().size(), " examples; at most ", kMostOrdered,
        " can be shuffled, interleaved or filtered: read fewer files, or keep "
        "fewer by the stage \"take\""));
  }

  absl::Status CheckBeforeBatch() const {
    if (!batched_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "must stand before batch: batches are ranges of examples");
  }

  absl::Status AddTransform(const InputStage& stage) {
    const TransformContext context = {
        .input = spec(),
        .key = StableHash(NameOf(stage), options_.seed + position_),
        .training = options_.training};
    ASSIGN_OR_RETURN(std::unique_ptr<Transform> transform,
                     MakeTransform(stage, context));
    RETURN_IF_ERROR(CheckSizes(transform->spec()));
    const std::string* const drawn = DrawnFeature(stage);
    variation_.seeded |= drawn != nullptr;
    if (context.training && drawn != nullptr) variation_.drawn.insert(*drawn);
    if (batched_) {
      pipeline_.late_.push_back(std::move(transform));
    } else {
      Push(std::make_unique<TransformStage>(last(), std::move(transform)));
    }
    return absl::OkStatus();
  }

  // The feature of which it draws another value in each epoch, else null.
  static const std::string* DrawnFeature(const InputStage& stage) {
    if (stage.has_flip()) return &stage.flip().feature();
    if (stage.has_random_crop()) return &stage.random_crop().feature();
    if (stage.has_rand_augment()) return &stage.rand_augment().feature();
    if (stage.has_random_brightness()) {
      return &stage.random_brightness().feature();
    }
    if (stage.has_random_rotation()) return &stage.random_rotation().feature();
    if (stage.has_map()) {
      const OwnMap* const map = FindMap(stage.map().name());
      if (map != nullptr && map->draws) return &stage.map().feature();
    }
    return nullptr;
  }

  // Whether every epoch has the same examples, and this of them, so that what
  // is found of it now stays true.
  absl::Status CheckKnown(const std::string& feature,
                          absl::string_view what) const {
    if (!variation_.varies.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("comes after ", variation_.varies, ", so nobody knows ",
                       what, ": put it before them, or shuffle after them"));
    }
    if (variation_.drawn.contains(feature)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", feature, "' is drawn again in each epoch, so nobody knows ",
          what, ": put it before what draws"));
    }
    return absl::OkStatus();
  }

  // What it keeps is found now, so that all know how many examples there are,
  // and batches behind it are full. Of an input that grows nobody knows: there
  // it makes batches smaller.
  absl::Status AddFilter(const InputStage& stage) {
    RETURN_IF_ERROR(CheckBeforeBatch());
    if (pipeline_.growing_ != nullptr) return AddTransform(stage);
    RETURN_IF_ERROR(CheckOrder());
    const std::string& name = stage.filter().feature();
    ASSIGN_OR_RETURN(const size_t feature, FindFeature(spec(), name));
    RETURN_IF_ERROR(CheckKnown(name, "how many it keeps"));
    ASSIGN_OR_RETURN(const std::unique_ptr<Transform> filter,
                     MakeTransform(stage, {.input = spec()}));
    Example example;
    const auto keeps = [&](const ExamplePlace& place) -> absl::StatusOr<bool> {
      absl::Status status = last().GetFeature(place, feature, &example);
      if (status.ok()) status = filter->Apply(place, &example);
      if (status.ok()) return !example.dropped;
      // It is skipped when its turn comes.
      if (pipeline_.skip_errors_) return true;
      return pipeline_.Named(status, example);
    };
    ASSIGN_OR_RETURN(std::unique_ptr<Stage> kept,
                     MakeFilter(last(), pipeline_.source().numbers(), keeps));
    Push(std::move(kept));
    return absl::OkStatus();
  }

  // What follows from the size of a batch is of training alone: in evaluation
  // all examples count, and a batch is what suits the computer.
  absl::StatusOr<uint64_t> WholeBatch() const {
    if (options_.batch > 0) return options_.batch;
    return absl::InternalError("nobody said how large a batch is");
  }

  absl::Status AddBatch(bool drop_remainder) {
    batched_ = true;
    if (!drop_remainder || !options_.training) return absl::OkStatus();
    const uint64_t size = last().size();
    ASSIGN_OR_RETURN(const uint64_t batch, WholeBatch());
    if (size < batch) {
      return absl::InvalidArgumentError(
          absl::StrCat("with drop_remainder no example is left: there are ",
                       size, ", and a batch has ", batch));
    }
    if (size % batch == 0) return absl::OkStatus();
    Push(MakeSlice("drop_remainder", last(), 0, size - size % batch));
    return absl::OkStatus();
  }

  absl::Status AddPaddedBatch(const InputStage::PaddedBatch& config) {
    pipeline_.padding_ =
        Padding{.value = config.value(), .length = config.length()};
    return AddBatch(config.drop_remainder());
  }

  absl::Status AddBuckets(const InputStage::BucketByLength& config) {
    pipeline_.padding_ = Padding{.value = config.value()};
    batched_ = true;
    const std::vector<uint64_t> boundaries(config.boundaries().begin(),
                                           config.boundaries().end());
    if (std::adjacent_find(boundaries.begin(), boundaries.end(),
                           std::greater_equal<>()) != boundaries.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "boundaries must ascend; found ", absl::StrJoin(boundaries, ", ")));
    }
    ASSIGN_OR_RETURN(const size_t feature,
                     FindFeature(spec(), config.feature()));
    if (!options_.training) return absl::OkStatus();
    RETURN_IF_ERROR(CheckOrder());
    RETURN_IF_ERROR(CheckKnown(config.feature(), "its lengths"));
    ASSIGN_OR_RETURN(const uint64_t batch, WholeBatch());
    Example example;
    const auto bucket =
        [&](const ExamplePlace& place) -> absl::StatusOr<uint32_t> {
      const absl::Status status = last().GetFeature(place, feature, &example);
      // It is skipped when its turn comes.
      if (!status.ok() && pipeline_.skip_errors_) return 0;
      if (!status.ok()) return pipeline_.Named(status, example);
      const OwnedTensor& value = example.values[feature];
      const double length = value.dims().empty()
                                ? NumberAt(value, 0)
                                : static_cast<double>(value.dims()[0]);
      return static_cast<uint32_t>(std::count_if(
          boundaries.begin(), boundaries.end(), [length](uint64_t boundary) {
            return static_cast<double>(boundary) <= length;
          }));
    };
    const Buckets buckets = {
        .buckets = static_cast<uint32_t>(boundaries.size()) + 1,
        .batch = batch,
        .drop_remainder = config.drop_remainder()};
    ASSIGN_OR_RETURN(
        std::unique_ptr<Stage> ordered,
        MakeBuckets(last(), pipeline_.source().numbers(), buckets, bucket));
    Push(std::move(ordered));
    return absl::OkStatus();
  }

  absl::Status AddCache(const InputStage::Cache& config) {
    CacheStage::Options options = {.directory = config.directory(),
                                   .max_bytes = config.max_mb() * kMegabyte};
    if (config.keep()) {
      if (config.directory().empty()) {
        return absl::InvalidArgumentError(
            "with keep needs a directory for the files that stay");
      }
      CachedInput input = {.config = config_,
                           .training = options_.training,
                           .stages = static_cast<int>(position_) - 1,
                           .source = pipeline_.source()};
      if (variation_.seeded) input.seed = options_.seed;
      ASSIGN_OR_RETURN(options.key, CacheKey(input));
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Stage> cache,
                     CacheStage::Create(last(), options));
    Push(std::move(cache));
    // It gives the same in every epoch.
    variation_ = {.repeated = variation_.repeated, .seeded = variation_.seeded};
    return absl::OkStatus();
  }

  absl::Status AddWindow(const InputStage::Window& config) {
    ASSIGN_OR_RETURN(std::unique_ptr<WindowStage> window,
                     WindowStage::Create(last(), config));
    if (window->short_windows() > 0) {
      short_windows_ = absl::StrCat(
          "window: the last ", window->short_windows(), " of ", window->size(),
          " windows have fewer than ", config.size(),
          " examples: leave them out by \"drop_remainder\": true, or bring all "
          "to one length by pad or padded_batch");
    }
    Push(std::move(window));
    if ((variation_.shuffled || variation_.repeated) &&
        variation_.varies.empty()) {
      variation_.varies =
          "a window of shuffled or repeated examples, which meet others each "
          "time";
    }
    return absl::OkStatus();
  }

  absl::Status AddRelabel(const InputStage::Relabel& config) {
    RETURN_IF_ERROR(CheckOrder());
    if (variation_.shuffled || variation_.repeated ||
        !variation_.varies.empty()) {
      return absl::InvalidArgumentError(
          "comes after a stage that shuffles or repeats, and labels go by "
          "place: put it before that");
    }
    ASSIGN_OR_RETURN(
        std::unique_ptr<RelabelStage> relabelled,
        RelabelStage::Create(last(), pipeline_.source().Describe(), config));
    pipeline_.new_labels_crc32c_ = relabelled->file_crc32c();
    Push(std::move(relabelled));
    return absl::OkStatus();
  }

  absl::Status AddOther(const InputStage& stage) {
    if (stage.kind_case() == InputStage::KIND_NOT_SET) {
      return absl::InvalidArgumentError("says nothing to do");
    }
    const bool is_of_batches = stage.has_prefetch() || stage.has_batch() ||
                               stage.has_padded_batch() ||
                               stage.has_bucket_by_length();
    if (options_.is_part && is_of_batches) {
      return absl::InvalidArgumentError(
          "is of what several sources make together: put it into input.stages");
    }
    if (stage.has_prefetch()) {
      pipeline_.prefetch_ = std::max(1u, stage.prefetch().batches());
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(CheckBeforeBatch());
    const bool needs_all =
        stage.has_repeat() || stage.has_take() || stage.has_skip() ||
        stage.has_cache() || stage.has_relabel() || stage.has_window() ||
        stage.has_bucket_by_length() || stage.batch().drop_remainder() ||
        stage.padded_batch().drop_remainder();
    if (needs_all && pipeline_.growing_ != nullptr) {
      return absl::InvalidArgumentError(
          "does not go with input.follow, where each file is trained on once, "
          "as it comes; leave it out");
    }
    const uint64_t size = last().size();
    switch (stage.kind_case()) {
      case InputStage::kBatch:
        return AddBatch(stage.batch().drop_remainder());
      case InputStage::kPaddedBatch:
        return AddPaddedBatch(stage.padded_batch());
      case InputStage::kBucketByLength:
        return AddBuckets(stage.bucket_by_length());
      case InputStage::kWindow:
        return AddWindow(stage.window());
      case InputStage::kShuffle:
        return AddShuffle(stage.shuffle());
      case InputStage::kRepeat:
        if (stage.repeat().times() > kMostOrdered / size) {
          return absl::InvalidArgumentError(
              absl::StrCat(stage.repeat().times(), " times ", size,
                           " examples are more than ", kMostOrdered));
        }
        Push(MakeRepeat(last(), stage.repeat().times()));
        variation_.repeated = true;
        return absl::OkStatus();
      case InputStage::kTake:
        if (stage.take().examples() < size) LeaveOutSome();
        Push(MakeSlice("take", last(), 0,
                       std::min(size, stage.take().examples())));
        return absl::OkStatus();
      case InputStage::kSkip:
        if (stage.skip().examples() >= size) {
          return absl::InvalidArgumentError(
              absl::StrCat("leaves out ", stage.skip().examples(),
                           " examples; there are ", size));
        }
        LeaveOutSome();
        Push(MakeSlice("skip", last(), stage.skip().examples(), size));
        return absl::OkStatus();
      case InputStage::kInterleave:
        RETURN_IF_ERROR(CheckOrder());
        RETURN_IF_ERROR(CheckThreads(stage.interleave().parallelism()));
        Push(MakeInterleave(last(), stage.interleave().cycle_length(),
                            stage.interleave().block_length(),
                            stage.interleave().parallelism()));
        return absl::OkStatus();
      case InputStage::kCache:
        return AddCache(stage.cache());
      case InputStage::kRelabel:
        return AddRelabel(stage.relabel());
      default:
        return absl::InternalError("is not known");
    }
  }

  // Of an order of each epoch's own, they are others in each.
  void LeaveOutSome() {
    if (!variation_.shuffled || !variation_.varies.empty()) return;
    variation_.varies =
        "a take or skip of shuffled examples, which differ from epoch to epoch";
  }

  // All stages of an example pass on one of the threads of input.parallelism.
  absl::Status CheckThreads(uint32_t wanted) const {
    uint32_t threads = 0;
    if (!absl::SimpleAtoi(config_.parallelism(), &threads) ||
        wanted <= threads) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "parallelism is ", wanted, ", but input.parallelism gives ", threads,
        threads == 1 ? " thread" : " threads",
        " in all: set that to as many, or to \"auto\""));
  }

  Pipeline& pipeline_;
  const v1::InputConfig& config_;
  const Options options_;
  uint64_t position_ = 0;
  uint64_t shuffles_ = 0;
  Variation& variation_;
  bool batched_ = false;
  std::string short_windows_;  // What to do about them; empty: there are none.
};

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Create(
    std::unique_ptr<ExampleSource> source, const v1::InputConfig& config,
    const Options& options) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline());
  pipeline->growing_ = source->growing();
  auto first = std::make_unique<SourceStage>(std::move(source));
  pipeline->source_ = first.get();
  pipeline->variation_ = first->source().variation();
  pipeline->stages_.push_back(std::move(first));
  pipeline->skip_errors_ = config.on_error() == v1::InputConfig::ON_ERROR_SKIP;
  Builder builder(pipeline.get(), config, options);
  if (config.stages().empty() && options.training && !options.is_part) {
    RETURN_IF_ERROR(builder.AddShuffle({}));
  }
  for (const InputStage& stage : config.stages()) {
    RETURN_IF_ERROR(builder.Add(stage));
  }
  RETURN_IF_ERROR(builder.CastDoubles());
  if (!options.is_part) RETURN_IF_ERROR(builder.CheckWindows());
  if (options.is_part) {
    pipeline->spec_ = pipeline->examples().spec();
  } else {
    RETURN_IF_ERROR(pipeline->FixSpec());
  }
  pipeline->meaning_ = DescribeMeaning(config, options.training,
                                       pipeline->source(), pipeline->spec_);
  return pipeline;
}

v1::DataSet Pipeline::Describe() const {
  v1::DataSet data = source().Describe();
  if (new_labels_crc32c_.has_value()) {
    data.set_labels_crc32c(*new_labels_crc32c_);
  }
  *data.mutable_meaning() = meaning_;
  return data;
}

// A batch has one shape: where examples may differ the first one says which, or
// a vector becomes ragged.
absl::Status Pipeline::FixSpec() {
  spec_ = late_.empty() ? stages_.back()->spec() : late_.back()->spec();
  bool varies = false;
  for (FeatureSpec& feature : spec_.features) {
    if (padding_.has_value()) {
      const bool is_padded = SizeOf(feature.dims) == 0;
      padding_->is_used.push_back(is_padded);
      if (is_padded && padding_->length > 0) feature.dims[0] = padding_->length;
      continue;
    }
    if (feature.dims == Dims{0}) {
      feature.dims.clear();
      feature.ragged = true;
    }
    varies |= SizeOf(feature.dims) == 0;
  }
  if (!varies) return absl::OkStatus();
  if (growing_ != nullptr) {
    return absl::InvalidArgumentError(
        "with input.follow the job file has to say of what shape a batch is: "
        "bring features that differ from example to example to one shape by "
        "resize, crop or pad");
  }
  Example example;
  absl::Status status;
  const uint64_t last = std::min(size(), kMostProbed);
  for (uint64_t offset = 0; offset < last; ++offset) {
    status = stages_.back()->Get({0, offset}, &example);
    for (const auto& transform : late_) {
      if (status.ok() && !example.dropped) {
        status = transform->Apply({0, offset}, &example);
      }
    }
    if (status.ok() && !example.dropped) break;
    if (!status.ok() && !skip_errors_) return Named(status, example);
    status = absl::InvalidArgumentError(absl::StrCat(
        "none of the first ", last, " examples passes the stages"));
  }
  RETURN_IF_ERROR(status);
  for (size_t f = 0; f < spec_.features.size(); ++f) {
    Dims& dims = spec_.features[f].dims;
    if (SizeOf(dims) == 0) dims = example.values[f].dims();
  }
  return absl::OkStatus();
}

absl::Status Pipeline::CheckShape(size_t f, const OwnedTensor& value) const {
  const FeatureSpec& feature = spec_.features[f];
  const bool is_padded = padding_.has_value() && padding_->is_used[f];
  bool fits = feature.ragged ? value.dims().size() == 1
                             : value.dims().size() == feature.dims.size();
  for (size_t d = 0; fits && !feature.ragged && d < feature.dims.size(); ++d) {
    const bool may_be_less = is_padded && d == 0 && padding_->length > 0;
    fits = may_be_less ? value.dims()[d] <= feature.dims[d]
                       : value.dims()[d] == feature.dims[d] ||
                             (is_padded && feature.dims[d] == 0);
  }
  if (fits && value.dtype() == feature.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "'", feature.name, "' is ", ShapeText(value.dtype(), value.dims()),
      is_padded ? "; padded_batch makes " : "; the batch has ",
      ShapeText(feature.dtype, feature.dims),
      is_padded ? " of it: give it a larger length, or cut it by pad"
                : ": bring all to one shape by resize, crop or pad"));
}

absl::Status Pipeline::Check(const Portion& range) const {
  const uint64_t size = stages_.back()->SizeIn(range.epoch);
  if (range.begin < range.end && range.end <= size) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrCat("portion [", range.begin, ", ", range.end, ") of epoch ",
                   range.epoch, " is not a range of the ", size, " examples"));
}

absl::Status Pipeline::Read(const Portion& range, Batch* batch) const {
  std::vector<Example>& examples = batch->scratch;
  if (examples.size() < range.size()) examples.resize(range.size());
  for (uint64_t i = 0; i < range.size(); ++i) {
    RETURN_IF_ERROR(ReadExample(range.epoch, range.begin + i, &examples[i]));
  }
  return Finish(range, absl::MakeSpan(examples.data(), range.size()), batch);
}

// One of each `every_` in a row, and not always the same: in sync mode a worker
// takes the same few of so many in a row each time.
bool Pipeline::IsMeasured(uint64_t epoch, uint64_t offset) const {
  const uint64_t row = offset / every_ + 31 * epoch;
  const uint64_t place = (row * 0x9e3779b97f4a7c15 >> 40) % every_;
  return offset % every_ == place;
}

absl::Status Pipeline::ReadExample(uint64_t epoch, uint64_t offset,
                                   Example* example) const {
  const StageClock::Pause pause(!IsMeasured(epoch, offset));
  return OnError(stages_.back()->Get({epoch, offset}, example), example);
}

absl::Status Pipeline::ReadBehind(int count, uint64_t offset,
                                  Example* example) const {
  return OnError(Behind(count).Get({.epoch = 0, .offset = offset}, example),
                 example);
}

absl::Status Pipeline::Finish(const Portion& range,
                              absl::Span<Example> examples,
                              Batch* batch) const {
  CHECK(examples.size() == range.size(), "there is an example for each offset");
  for (const std::unique_ptr<Transform>& transform : late_) {
    for (size_t i = 0; i < examples.size(); ++i) {
      if (examples[i].dropped) continue;
      const StageClock::Pause pause(!IsMeasured(range.epoch, range.begin + i));
      RETURN_IF_ERROR(OnError(
          transform->Apply({range.epoch, range.begin + i}, &examples[i]),
          &examples[i]));
    }
  }
  const StageClock::Scope scope(&assembling_);
  for (Example& example : examples) {
    for (size_t f = 0; f < spec_.features.size() && !example.dropped; ++f) {
      RETURN_IF_ERROR(OnError(CheckShape(f, example.values[f]), &example));
    }
  }
  batch->range = range;
  Assemble(examples, batch);
  return absl::OkStatus();
}

void Pipeline::Assemble(absl::Span<Example> examples, Batch* batch) const {
  const auto kept = [&examples](auto f) {
    for (const Example& example : examples) {
      if (!example.dropped) f(example);
    }
  };
  uint64_t count = 0;
  kept([&count](const Example&) { ++count; });
  batch->Reset(spec_, count);
  batch->names = &source();
  const uint64_t begin = batch->range.begin;
  for (size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].dropped) continue;
    batch->offsets.push_back(begin + i);
    batch->indices.push_back(examples[i].index);
  }
  for (size_t f = 0; f < spec_.features.size(); ++f) {
    Column& column = batch->columns[f];
    if (spec_.features[f].ragged) {
      uint64_t* offset = column.mutable_offsets().data();
      kept([&](const Example& example) {
        offset[1] = offset[0] + example.values[f].size();
        ++offset;
      });
      column.ResizeRagged();
    }
    if (padding_.has_value() && padding_->is_used[f]) {
      // As long as the longest of the batch, in each dimension.
      FeatureSpec longest = spec_.features[f];
      kept([&](const Example& example) {
        for (size_t d = 0; d < longest.dims.size(); ++d) {
          longest.dims[d] =
              std::max(longest.dims[d], example.values[f].dims()[d]);
        }
      });
      column.Reset(longest, count);
      const uint64_t bytes = longest.size() * SizeOf(longest.dtype);
      auto* to = static_cast<std::byte*>(column.tensor().data);
      kept([&](const Example& example) {
        CopyPadded(example.values[f], longest.dims, padding_->value,
                   {to, bytes});
        to += bytes;
      });
      continue;
    }
    auto* to = static_cast<std::byte*>(column.tensor().data);
    kept([&](const Example& example) {
      const absl::Span<const std::byte> bytes = example.values[f].bytes();
      if (bytes.empty()) return;
      std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    });
  }
}

absl::Status Pipeline::OnError(const absl::Status& error,
                               Example* example) const {
  if (error.ok()) return error;
  const absl::Status named = Named(error, *example);
  // Of files that are others no example is what it should be.
  const bool is_of_files = growing_ != nullptr && !absl::IsDataLoss(error) &&
                           !absl::IsInvalidArgument(error);
  if (!skip_errors_ || is_of_files) return named;
  example->dropped = true;
  const uint64_t before = skipped_.fetch_add(1, std::memory_order_relaxed);
  if (before < kMostLogged) {
    Log(LogLevel::kWarning, "an example is skipped",
        {{"why", named.message()}, {"skipped", before + 1}});
  }
  return absl::OkStatus();
}

// Sources name their files; what a map says needs it. What does not suit is the
// job's fault only if no example was read to find it.
absl::Status Pipeline::Named(const absl::Status& error,
                             const Example& example) const {
  const absl::StatusCode code = absl::IsInvalidArgument(error)
                                    ? absl::StatusCode::kDataLoss
                                    : error.code();
  if (growing_ != nullptr && absl::IsFailedPrecondition(error)) return error;
  const std::string where = source().Where(example.index);
  if (absl::StrContains(error.message(), where)) {
    return absl::Status(code, error.message());
  }
  return absl::Status(code, absl::StrCat(where, ": ", error.message()));
}

void Pipeline::Measure(ChromeTrace* trace, uint32_t every) {
  using Lane = ChromeTrace::Lane;
  every_ = every;
  for (const auto& stage : stages_) {
    stage->clock().Measure(stage->name().c_str(), trace,
                           stage == stages_.front() ? Lane::kDisk : Lane::kCpu);
  }
  for (const auto& transform : late_) {
    transform->clock().Measure(transform->name().c_str(), trace, Lane::kCpu);
  }
  assembling_.Measure("batch", trace, Lane::kCpu);
}

std::vector<Pipeline::StageTime> Pipeline::StageTimes() const {
  std::vector<StageTime> times;
  std::map<std::string, int> named;
  const auto add = [&](const std::string& name, uint64_t calls,
                       absl::Duration time) {
    const int number = ++named[name];
    times.push_back(
        {number == 1 ? name : absl::StrCat(name, "_", number), calls, time});
  };
  absl::Duration before;
  for (const auto& stage : stages_) {
    const absl::Duration total = stage->clock().total();
    // A stage that asks less often, as a cache does, took what its upstream
    // took within its own time. The upstream may have told what it has not yet.
    add(stage->name(), stage->clock().calls() * every_,
        std::max(total - before, absl::ZeroDuration()) * every_);
    before = total;
  }
  for (const auto& transform : late_) {
    add(transform->name(), transform->clock().calls() * every_,
        transform->clock().total() * every_);
  }
  add("batch", assembling_.calls(), assembling_.total());
  return times;
}

}  // namespace paramd
