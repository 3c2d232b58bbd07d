#include "input/cache_key.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "base/random.h"
#include "base/status_macros.h"
#include "input/file.h"
#include "input/transform.h"

namespace paramd {
namespace {

absl::Status AddFile(const std::string& path, std::string* text) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot find '", path, "'"));
  }
  absl::StrAppend(text, path, " ", status.st_size, " ", status.st_mtim.tv_sec,
                  ".", status.st_mtim.tv_nsec, "\n");
  return absl::OkStatus();
}

template <class Names>
absl::Status AddNamed(const std::string& directory, const Names& names,
                      std::string* text) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files,
                   FindFiles(directory, {names.begin(), names.end()}));
  for (const std::string& file : files) {
    RETURN_IF_ERROR(AddFile(file, text));
  }
  return absl::OkStatus();
}

absl::Status AddFolders(const std::string& directory, std::string* text) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(
           directory,
           std::filesystem::directory_options::follow_directory_symlink, error),
       end;
       !error && it != end; it.increment(error)) {
    if (it.depth() > 0) it.disable_recursion_pending();
    std::error_code unknown;
    if (it->is_regular_file(unknown)) files.push_back(it->path().string());
  }
  if (error) {
    return absl::ErrnoToStatus(
        error.value(), absl::StrCat("cannot read directory '", directory, "'"));
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    RETURN_IF_ERROR(AddFile(file, text));
  }
  return absl::OkStatus();
}

// Of a stage that has one; who forgets labels has none in its place.
absl::Status AddLabels(const v1::InputStage& stage, std::string* text) {
  const std::string& file = stage.relabel().file();
  return file.empty() ? absl::OkStatus() : AddFile(file, text);
}

absl::Status AddFilesOf(const v1::InputSource& source,
                        const std::string& around, std::string* text) {
  const std::string& directory =
      source.directory().empty() ? around : source.directory();
  for (const v1::InputStage& stage : source.stages()) {
    RETURN_IF_ERROR(AddLabels(stage, text));
  }
  switch (source.kind_case()) {
    case v1::InputSource::kCsv:
      return AddNamed(directory, source.csv().files(), text);
    case v1::InputSource::kLibsvm:
      return AddNamed(directory, source.libsvm().files(), text);
    case v1::InputSource::kTfrecord:
      return AddNamed(directory, source.tfrecord().files(), text);
    case v1::InputSource::kRecords:
      return AddNamed(directory, source.records().files(), text);
    case v1::InputSource::kText:
      return AddNamed(directory, source.text().files(), text);
    case v1::InputSource::kImageFolders:
      return AddFolders(directory, text);
    case v1::InputSource::kNpy:
      for (const auto& array : source.npy().arrays()) {
        RETURN_IF_ERROR(AddFile(PathIn(directory, array.file()), text));
      }
      return absl::OkStatus();
    case v1::InputSource::kSampleFrom:
      for (const v1::InputSource& one : source.sample_from().sources()) {
        RETURN_IF_ERROR(AddFilesOf(one, directory, text));
      }
      return absl::OkStatus();
    case v1::InputSource::kZip:
      for (const v1::InputSource& one : source.zip().sources()) {
        RETURN_IF_ERROR(AddFilesOf(one, directory, text));
      }
      return absl::OkStatus();
    case v1::InputSource::kSynthetic:
    case v1::InputSource::kIndices:
    case v1::InputSource::KIND_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

// Of IDX files, which are named beside the sources.
absl::Status AddShortForm(const v1::InputConfig& config, bool training,
                          std::string* text) {
  for (const std::string* const name :
       {training ? &config.train_images() : &config.test_images(),
        training ? &config.train_labels() : &config.test_labels()}) {
    if (name->empty()) continue;
    RETURN_IF_ERROR(AddFile(PathIn(config.directory(), *name), text));
  }
  return absl::OkStatus();
}

void AddSourceNames(const SourceNames& names, std::string* text) {
  for (const std::vector<std::string>& feature : names.columns) {
    absl::StrAppend(text, absl::StrJoin(feature, "\n"), "\n\n");
  }
  absl::StrAppend(text, "\nclasses\n");
  for (const std::string& name : names.classes)
    absl::StrAppend(text, name, "\n");
  for (const SourceNames& part : names.parts) AddSourceNames(part, text);
}

// Another build may decode or map otherwise.
absl::Status AddProgram(std::string* text) {
  static const int here = 0;
  Dl_info info;
  std::string path = "/proc/self/exe";
  if (dladdr(&here, &info) != 0 && info.dli_fname != nullptr &&
      absl::EndsWith(info.dli_fname, ".so")) {
    path = info.dli_fname;
  }
  return AddFile(path, text);
}

}  // namespace

absl::StatusOr<std::string> CacheKey(const CachedInput& input) {
  std::string text = input.training ? "training\n" : "evaluation\n";
  RETURN_IF_ERROR(AddProgram(&text));
  const v1::InputSource& named = !input.training && input.config.has_test()
                                     ? input.config.test()
                                     : input.config.train();
  absl::StrAppend(&text, named.ShortDebugString(), "\n");
  if (named.kind_case() == v1::InputSource::KIND_NOT_SET) {
    RETURN_IF_ERROR(AddShortForm(input.config, input.training, &text));
  } else {
    RETURN_IF_ERROR(AddFilesOf(named, "", &text));
  }
  AddSourceNames(input.source.Names(), &text);
  for (const FeatureSpec& feature : input.source.spec().features) {
    absl::StrAppend(&text, feature.name, " ",
                    ShapeText(feature.dtype, feature.dims), " ",
                    feature.classes, "\n");
  }
  for (int i = 0; i < input.stages; ++i) {
    v1::InputStage stage = input.config.stages(i);
    // What keeps or limits changes nothing.
    if (stage.has_cache()) stage.mutable_cache()->Clear();
    if (stage.has_interleave()) stage.mutable_interleave()->clear_parallelism();
    RETURN_IF_ERROR(AddLabels(stage, &text));
    absl::StrAppend(&text, stage.ShortDebugString(), "\n");
  }
  if (input.seed.has_value()) absl::StrAppend(&text, "seed ", *input.seed);
  return absl::StrFormat("%016x", StableHash(text));
}

}  // namespace paramd
