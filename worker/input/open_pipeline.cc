#include "worker/input/open_pipeline.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/process_limits.h"
#include "base/status_macros.h"
#include "worker/input/file.h"
#include "worker/input/growing_source.h"
#include "worker/input/idx_source.h"
#include "worker/input/sources.h"

namespace paramd {
namespace {

// Of auto: so many may wait for disks while one computes.
constexpr uint32_t kThreadsPerProcessor = 16;

// ---- the short form ---------------------------------------------------------

OpenedSource OpenIdx(const v1::InputConfig& config, const std::string& images,
                     const std::string& labels,
                     const absl::optional<InputSpec>& expected) {
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
                      PathIn(config.directory(), labels), expected));
  return source;
}

OpenedSource OpenSource(const v1::InputSource& config) {
  const std::string& directory = config.directory();
  switch (config.kind_case()) {
    case v1::InputSource::kCsv:
      return OpenCsv(directory, config.csv());
    case v1::InputSource::kNpy:
      return OpenNpy(directory, config.npy());
    case v1::InputSource::kTfrecord:
      return OpenTfRecord(directory, config.tfrecord());
    case v1::InputSource::kImageFolders:
      return OpenImageFolders(directory, config.image_folders());
    case v1::InputSource::kRecords:
      return OpenRecords(directory, config.records());
    case v1::InputSource::kText:
      return OpenText(directory, config.text());
    case v1::InputSource::kSynthetic:
      return OpenSynthetic(config.synthetic());
    case v1::InputSource::kIndices:
      return OpenIndices(config.indices());
    case v1::InputSource::kLibsvm:
      return OpenLibSvm(directory, config.libsvm());
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

absl::Status CheckSameSpec(const InputSpec& spec, const InputSpec& training) {
  bool same = spec.features.size() == training.features.size();
  for (size_t f = 0; same && f < spec.features.size(); ++f) {
    const FeatureSpec& ours = spec.features[f];
    const FeatureSpec& theirs = training.features[f];
    same = ours.name == theirs.name && ours.dtype == theirs.dtype &&
           ours.dims == theirs.dims && ours.ragged == theirs.ragged;
    if (same && ours.classes > theirs.classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("the test data have ", ours.classes, " classes of '",
                       ours.name, "'; those trained on have ", theirs.classes));
    }
  }
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the test data have ", SpecText(spec),
                   "; those trained on have ", SpecText(training)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Pipeline>> OpenTrainingData(
    const v1::InputConfig& config, uint64_t seed) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExampleSource> source,
                   config.has_follow() ? OpenGrowing(config.train())
                   : config.has_train()
                       ? OpenSource(config.train())
                       : OpenIdx(config, config.train_images(),
                                 config.train_labels(), absl::nullopt));
  return Pipeline::Create(std::move(source), config,
                          {.seed = seed, .training = true});
}

absl::StatusOr<std::unique_ptr<Pipeline>> OpenTestData(
    const v1::InputConfig& config, const InputSpec& training) {
  std::unique_ptr<ExampleSource> source;
  if (config.has_train()) {
    ASSIGN_OR_RETURN(
        source, OpenSource(config.has_test() ? config.test() : config.train()));
  } else {
    // Without stages the files themselves look like what was trained on.
    ASSIGN_OR_RETURN(
        source,
        OpenIdx(config, config.test_images(), config.test_labels(),
                config.stages().empty() ? absl::optional<InputSpec>(training)
                                        : absl::nullopt));
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<Pipeline> pipeline,
      Pipeline::Create(std::move(source), config, {.training = false}));
  RETURN_IF_ERROR(CheckSameSpec(pipeline->spec(), training));
  return pipeline;
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
    options.most_threads =
        std::min(options.most_threads,
                 kThreadsPerProcessor * ProcessorsOfThisProcess());
  } else if (!absl::SimpleAtoi(config.parallelism(), &options.threads)) {
    options.threads = 1;  // Not set: the config's reader admits nothing else.
  }
  if (config.memory_mb() > 0) {
    options.memory_bytes = uint64_t{config.memory_mb()} * 1000000;
  }
  return options;
}

}  // namespace paramd
