#include "input/open_pipeline.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/process_limits.h"
#include "base/status_macros.h"
#include "config/batch_rule.h"
#include "input/combined_source.h"
#include "input/describe_meaning.h"
#include "input/file.h"
#include "input/growing_source.h"
#include "input/idx_source.h"
#include "input/sources.h"
#include "input/test_input.h"
#include "input/transform.h"
#include "proto/data_meaning.h"

namespace paramd {
namespace {

// Of auto: so many may wait for disks while one computes.
constexpr uint32_t kThreadsPerProcessor = 16;

// ---- the short form ---------------------------------------------------------

OpenedSource OpenIdx(const v1::InputConfig& config, const std::string& images,
                     const std::string& labels,
                     const absl::optional<InputSpec>& expected,
                     bool has_labels = true) {
  if (config.format() != v1::InputConfig::IDX) {
    return absl::InvalidArgumentError(
        config.format() == v1::InputConfig::FORMAT_UNSPECIFIED
            ? std::string("the input has no format; \"idx\" is known")
            : absl::StrCat("input format ", static_cast<int>(config.format()),
                           " is not known; \"idx\" is"));
  }
  if (images.empty() || labels.empty()) {
    return absl::InvalidArgumentError("the input names no images or no labels");
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<ExampleSource> source,
      IdxSource::Open(PathIn(config.directory(), images),
                      has_labels ? PathIn(config.directory(), labels) : "",
                      expected));
  return source;
}

// ---- one source -------------------------------------------------------------

OpenedSource OpenPlain(const v1::InputSource& config,
                       const SourceOptions& options) {
  const std::string& directory = config.directory();
  switch (config.kind_case()) {
    case v1::InputSource::kCsv:
      return OpenCsv(directory, config.csv());
    case v1::InputSource::kNpy:
      return OpenNpy(directory, config.npy());
    case v1::InputSource::kTfrecord:
      return OpenTfRecord(directory, config.tfrecord());
    case v1::InputSource::kImageFolders:
      return OpenImageFolders(directory, config.image_folders(), options);
    case v1::InputSource::kRecords:
      return OpenRecords(directory, config.records());
    case v1::InputSource::kText:
      return OpenText(directory, config.text());
    case v1::InputSource::kSynthetic:
      return OpenSynthetic(config.synthetic());
    case v1::InputSource::kIndices:
      return OpenIndices(config.indices());
    case v1::InputSource::kLibsvm:
      return OpenLibSvm(directory, config.libsvm(), options);
    case v1::InputSource::kSampleFrom:
    case v1::InputSource::kZip:
    case v1::InputSource::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the input names no kind of source");
}

OpenedSource OpenGrowing(const v1::InputSource& config) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> source,
                   GrowingSource::Create(config));
  return source;
}

std::string SpecText(const InputSpec& spec) {
  return absl::StrJoin(
      spec.features, ", ", [](std::string* out, const FeatureSpec& feature) {
        absl::StrAppend(out, "'", feature.name, "' of ",
                        ShapeText(feature.dtype, feature.dims));
      });
}

InputSpec Without(const InputSpec& spec, absl::Span<const std::string> unread) {
  InputSpec read;
  for (const FeatureSpec& feature : spec.features) {
    if (!absl::c_linear_search(unread, feature.name)) {
      read.features.push_back(feature);
    }
  }
  return read;
}

// Whether how many classes a feature has is only what its files happen to have:
// the model knows how many there may be.
bool IsOpenEnded(const v1::InputSource& config, const FeatureSpec& feature) {
  return config.has_libsvm() && config.libsvm().columns() == 0 &&
         feature.name == config.libsvm().name();
}

// What two sets are called where they differ.
struct Sides {
  absl::string_view ours;    // "the test data have".
  absl::string_view theirs;  // "those trained on have".
};

absl::Status CheckSameSpec(const InputSpec& spec, const InputSpec& training,
                           const v1::InputSource& config, const Sides& sides) {
  bool same = spec.features.size() == training.features.size();
  for (size_t f = 0; same && f < spec.features.size(); ++f) {
    const FeatureSpec& ours = spec.features[f];
    const FeatureSpec& theirs = training.features[f];
    same = ours.name == theirs.name && ours.dtype == theirs.dtype &&
           ours.dims == theirs.dims && ours.ragged == theirs.ragged;
    if (same && ours.classes > theirs.classes && !IsOpenEnded(config, ours)) {
      return absl::InvalidArgumentError(
          absl::StrCat(sides.ours, " ", ours.classes, " classes of '",
                       ours.name, "'; ", sides.theirs, " ", theirs.classes));
    }
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(sides.ours, " ", SpecText(spec), "; ", sides.theirs, " ",
                   SpecText(training)));
}

// ---- several sources --------------------------------------------------------

// How the sources of an input are opened.
struct Opening {
  const v1::InputConfig& input;
  uint64_t seed = 0;
  bool training = true;
  bool labels = true;
};

OpenedSource OpenSource(const Opening& opening, const v1::InputSource& config,
                        const SourceNames& names);

// Says of which source an error of the job is.
absl::Status OfPart(size_t number, absl::string_view kind,
                    const absl::Status& error) {
  if (!absl::IsInvalidArgument(error)) return error;
  return absl::InvalidArgumentError(
      absl::StrCat("source ", number, " of ", kind, ": ", error.message()));
}

// A source with its own stages, in the directory of those around it unless it
// names one.
absl::StatusOr<std::unique_ptr<Pipeline>> OpenPart(const Opening& opening,
                                                   const std::string& directory,
                                                   v1::InputSource source,
                                                   size_t number,
                                                   const SourceNames& names) {
  if (source.directory().empty()) source.set_directory(directory);
  Opening within = opening;
  within.seed = SeedOfPart(opening.seed, number);
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> opened,
                   OpenSource(within, source, names));
  v1::InputConfig config;
  *config.mutable_stages() = source.stages();
  config.set_on_error(opening.input.on_error());
  config.set_parallelism(opening.input.parallelism());
  *config.mutable_train() = std::move(source);
  return Pipeline::Create(
      std::move(opened), config,
      {.seed = within.seed, .training = opening.training, .is_part = true});
}

// Whether the numbers of a source mean what those of the first one mean.
absl::Status CheckAlike(const Pipeline& part, const Pipeline& first,
                        const v1::InputSource& config) {
  RETURN_IF_ERROR(CheckSameSpec(part.examples().spec(), first.examples().spec(),
                                config, {"has", "source 1 has"}));
  const std::string difference =
      MeaningDifference(part.meaning(), first.meaning());
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("is read differently from source 1: it has ", difference));
}

// The first one's names are read in the others, too.
OpenedSource OpenSampled(const Opening& opening, const v1::InputSource& config,
                         const SourceNames& names) {
  const v1::InputSource::SampleFrom& sampled = config.sample_from();
  Parts parts;
  for (int i = 0; i < sampled.sources_size(); ++i) {
    const size_t number = parts.size() + 1;
    const SourceNames known = parts.empty() ? names : parts[0]->names();
    const v1::InputSource source = parts.empty()
                                       ? sampled.sources(i)
                                       : ReadByName(sampled.sources(i), known);
    auto part = OpenPart(opening, config.directory(), source, number, known);
    if (!part.ok()) return OfPart(number, "sample_from", part.status());
    if (!parts.empty()) {
      const absl::Status alike = CheckAlike(**part, *parts[0], source);
      if (!alike.ok()) return OfPart(number, "sample_from", alike);
    }
    parts.push_back(*std::move(part));
  }
  if (parts.empty()) {
    return absl::InvalidArgumentError("sample_from has no sources");
  }
  auto source = MakeSampled(
      std::move(parts), {sampled.weights().begin(), sampled.weights().end()},
      sampled.stop_on_empty(), opening.seed);
  if (source.ok() || !absl::IsInvalidArgument(source.status())) return source;
  return absl::InvalidArgumentError(
      absl::StrCat("sample_from ", source.status().message()));
}

OpenedSource OpenZipped(const Opening& opening, const v1::InputSource& config,
                        const SourceNames& names) {
  const auto& sources = config.zip().sources();
  Parts parts;
  for (const v1::InputSource& source : sources) {
    const size_t number = parts.size() + 1;
    const SourceNames known =
        number <= names.parts.size() ? names.parts[number - 1] : SourceNames();
    auto part = OpenPart(opening, config.directory(), source, number, known);
    if (!part.ok()) return OfPart(number, "zip", part.status());
    parts.push_back(*std::move(part));
  }
  if (parts.empty()) return absl::InvalidArgumentError("zip has no sources");
  auto source = MakeZipped(std::move(parts));
  if (source.ok() || !absl::IsInvalidArgument(source.status())) return source;
  return absl::InvalidArgumentError(
      absl::StrCat("zip: ", source.status().message()));
}

// `names` are those of what was trained on, if anything was.
OpenedSource OpenSource(const Opening& opening, const v1::InputSource& config,
                        const SourceNames& names) {
  if (config.has_sample_from()) return OpenSampled(opening, config, names);
  if (config.has_zip()) return OpenZipped(opening, config, names);
  return OpenPlain(config,
                   {.classes = names.classes, .labels = opening.labels});
}

// ---- train and test ---------------------------------------------------------

// With the stages of the source itself before all others.
v1::InputConfig WithOwnStages(const v1::InputConfig& config,
                              const v1::InputSource& source) {
  if (source.stages().empty()) return config;
  v1::InputConfig all = config;
  *all.mutable_stages() = source.stages();
  all.mutable_stages()->MergeFrom(config.stages());
  return all;
}

// REQUIRES: the config follows nothing.
OpenedSource OpenTrainingSource(const v1::InputConfig& config, uint64_t seed) {
  if (config.has_train()) {
    return OpenSource({.input = config, .seed = seed}, config.train(), {});
  }
  return OpenIdx(config, config.train_images(), config.train_labels(),
                 absl::nullopt);
}

bool MixesOrBatches(const v1::InputStage& stage) {
  return !IsTransform(stage) && !stage.has_take() && !stage.has_skip();
}

bool IsMap(const v1::InputStage& stage) {
  return IsTransform(stage) && !stage.has_filter();
}

bool MakesBatches(const v1::InputStage& stage) {
  return stage.has_batch() || stage.has_padded_batch() ||
         stage.has_bucket_by_length();
}

// See OpenToLabel.
google::protobuf::RepeatedPtrField<v1::InputStage> StagesToLabel(
    const google::protobuf::RepeatedPtrField<v1::InputStage>& stages) {
  auto end = absl::c_find_if(
      stages, [](const v1::InputStage& stage) { return stage.has_relabel(); });
  if (end == stages.end()) end = absl::c_find_if(stages, MixesOrBatches);
  google::protobuf::RepeatedPtrField<v1::InputStage> kept;
  for (auto stage = stages.begin(); stage != end; ++stage) {
    if (!IsMap(*stage) && !IsOn(*stage, /*training=*/true)) continue;
    v1::InputStage* const one = kept.Add();
    *one = *stage;
    // A map is what it is in an evaluation: what draws does not.
    if (!IsMap(*stage)) one->set_on(v1::InputStage::ON_BOTH);
    // Examples are read once, and an evaluation may have files of this key.
    if (one->has_cache()) one->mutable_cache()->clear_keep();
  }
  for (auto stage = end; stage != stages.end(); ++stage) {
    if (IsMap(*stage) || MakesBatches(*stage)) *kept.Add() = *stage;
  }
  return kept;
}

OpenedSource OpenTestSource(const v1::InputConfig& config,
                            const Pipeline& training, bool has_labels) {
  if (config.has_test()) {
    return OpenSource(
        {.input = config, .training = false, .labels = has_labels},
        config.test(), training.names());
  }
  // Without stages the files themselves look like what was trained on.
  const bool is_plain = config.stages().empty() && has_labels;
  return OpenIdx(
      config, config.test_images(), config.test_labels(),
      is_plain ? absl::optional<InputSpec>(training.spec()) : absl::nullopt,
      has_labels);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> OpenTrainingData(
    const v1::InputConfig& config, uint64_t seed, uint64_t batch) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> source,
                   config.has_follow() ? OpenGrowing(config.train())
                                       : OpenTrainingSource(config, seed));
  return Pipeline::Create(std::move(source),
                          WithOwnStages(config, config.train()),
                          {.seed = seed, .training = true, .batch = batch});
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenToLabel(
    const v1::InputConfig& config, uint64_t seed) {
  if (config.has_follow()) {
    return absl::InvalidArgumentError(
        "input.follow brings examples while a job runs; what is labelled has "
        "to be there before");
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> source,
                   OpenTrainingSource(config, seed));
  v1::InputConfig read = WithOwnStages(config, config.train());
  *read.mutable_stages() = StagesToLabel(read.stages());
  read.clear_test();
  ASSIGN_OR_RETURN(std::unique_ptr<Pipeline> pipeline,
                   Pipeline::Create(std::move(source), read,
                                    {.seed = seed, .training = false}));
  const Variation& variation = pipeline->variation();
  if (variation.varies.empty() && !variation.shuffled && !variation.repeated) {
    return pipeline;
  }
  return absl::InvalidArgumentError(
      "labels go by place, and the examples are not the same, or not at the "
      "same places, in each epoch: label each of their sources by itself");
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenTrainingData(
    const v1::JobConfig& job) {
  return OpenTrainingData(job.input(), job.seed(), WholeBatch(job));
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenTestData(
    const v1::InputConfig& config, const Pipeline& training,
    absl::Span<const std::string> unread) {
  const v1::InputSource& named =
      config.has_test() ? config.test() : config.train();
  v1::InputConfig read = WithOwnStages(config, named);
  const std::vector<std::string> left_out = LeftOut(read, unread);
  const bool has_labels = !absl::c_linear_search(left_out, "label");
  read = WithoutStagesOf(std::move(read), left_out);
  if (config.has_train()) {
    *read.mutable_test() =
        WithoutFeatures(ReadByName(named, training.names()), left_out);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> source,
                   OpenTestSource(read, training, has_labels));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Pipeline> pipeline,
      Pipeline::Create(std::move(source), read, {.training = false}));
  RETURN_IF_ERROR(CheckSameSpec(
      Without(pipeline->spec(), unread), Without(training.spec(), unread),
      read.test(), {"the test data have", "those trained on have"}));
  const std::string difference =
      MeaningDifference(pipeline->meaning(), training.meaning(), unread);
  if (difference.empty()) return pipeline;
  return absl::InvalidArgumentError(absl::StrCat(
      "the test data are read differently from those trained on: they have ",
      difference));
}

absl::Status CheckMeaning(const Pipeline& data, const std::string& path,
                          const v1::DataSet& trained,
                          absl::Span<const std::string> unread,
                          absl::string_view called) {
  const std::string difference =
      MeaningDifference(data.meaning(), trained.meaning(), unread);
  if (difference.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(called, " are read differently from what checkpoint '", path,
                   "' was trained on: they have ", difference));
}

std::string TrainingDirectory(const v1::InputConfig& config) {
  return config.has_train() ? config.train().directory() : config.directory();
}

Prefetcher::Options PrefetchOptions(const v1::InputConfig& config,
                                    uint64_t batch_size) {
  Prefetcher::Options options;
  options.batch_size = batch_size;
  if (config.parallelism() == "auto") {
    options.threads = 0;
    options.most_threads = std::min(
        options.most_threads, kThreadsPerProcessor * ProcessorsOfThisProcess());
  } else if (!absl::SimpleAtoi(config.parallelism(), &options.threads)) {
    options.threads = 1;  // Not set: the config's reader admits nothing else.
  }
  if (config.memory_mb() > 0) {
    options.memory_bytes = uint64_t{config.memory_mb()} * 1000000;
  }
  return options;
}

}  // namespace paramd
