// The stages of a pipeline, from those of a job file.
#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "input/cache_key.h"
#include "input/cache_stage.h"
#include "input/describe_meaning.h"
#include "input/own_map.h"
#include "input/pipeline.h"
#include "input/relabel_stage.h"
#include "input/window_stage.h"

namespace paramd {
namespace {

using v1::InputStage;

// An order names examples by 32 bits.
constexpr uint64_t kMostOrdered = 0xffffffff;
constexpr uint64_t kMegabyte = 1000000;

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
    const ExampleSource& source = pipeline_.source();
    v1::DataSet data = source.DescribeToLabel();
    *data.mutable_meaning() =
        DescribeMeaning(config_, options_.training, source, source.spec());
    ASSIGN_OR_RETURN(std::unique_ptr<RelabelStage> relabelled,
                     RelabelStage::Create(last(), data, config));
    pipeline_.new_labels_crc32c_ = relabelled->file_crc32c();
    Push(std::move(relabelled));
    return absl::OkStatus();
  }

  // Whether it may stand where it does.
  absl::Status CheckPlace(const InputStage& stage) const {
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
    if (stage.has_prefetch()) return absl::OkStatus();
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
    return absl::OkStatus();
  }

  absl::Status AddRepeat(uint64_t times) {
    const uint64_t size = last().size();
    if (times > kMostOrdered / size) {
      return absl::InvalidArgumentError(absl::StrCat(
          times, " times ", size, " examples are more than ", kMostOrdered));
    }
    Push(MakeRepeat(last(), times));
    variation_.repeated = true;
    return absl::OkStatus();
  }

  absl::Status AddSkip(uint64_t examples) {
    const uint64_t size = last().size();
    if (examples >= size) {
      return absl::InvalidArgumentError(
          absl::StrCat("leaves out ", examples, " examples; there are ", size));
    }
    LeaveOutSome();
    Push(MakeSlice("skip", last(), examples, size));
    return absl::OkStatus();
  }

  absl::Status AddOther(const InputStage& stage) {
    RETURN_IF_ERROR(CheckPlace(stage));
    const uint64_t size = last().size();
    switch (stage.kind_case()) {
      case InputStage::kPrefetch:
        pipeline_.prefetch_ = std::max(1u, stage.prefetch().batches());
        return absl::OkStatus();
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
        return AddRepeat(stage.repeat().times());
      case InputStage::kTake:
        if (stage.take().examples() < size) LeaveOutSome();
        Push(MakeSlice("take", last(), 0,
                       std::min(size, stage.take().examples())));
        return absl::OkStatus();
      case InputStage::kSkip:
        return AddSkip(stage.skip().examples());
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
  bool is_fixed = true;
  const auto count_fixed = [&] {
    const Variation& so_far = pipeline->variation_;
    is_fixed &= !so_far.shuffled && !so_far.repeated && so_far.varies.empty();
    if (is_fixed) pipeline->fixed_ = pipeline->stages_.size();
  };
  count_fixed();
  if (config.stages().empty() && options.training && !options.is_part) {
    RETURN_IF_ERROR(builder.AddShuffle({}));
  }
  for (const InputStage& stage : config.stages()) {
    RETURN_IF_ERROR(builder.Add(stage));
    count_fixed();
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

}  // namespace paramd
