#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/crc32c.h"
#include "base/shorten.h"
#include "base/status_macros.h"
#include "input/decode_image.h"
#include "input/file.h"
#include "input/sources.h"

namespace paramd {
namespace {

struct ImageFile {
  std::string path;
  uint32_t label = 0;
};

class ImageFolderSource : public ExampleSource {
 public:
  // Without classes there are no labels.
  ImageFolderSource(const v1::InputSource::ImageFolders& config,
                    std::vector<std::string> classes,
                    std::vector<ImageFile> files, uint32_t checksum)
      : channels_(config.channels()),
        exif_orientation_(config.exif_orientation()),
        classes_(std::move(classes)),
        files_(std::move(files)),
        checksum_(checksum) {
    spec_.features.push_back(
        {.name = "image", .dtype = DType::kUInt8, .dims = {0, 0, channels_}});
    if (classes_.empty()) return;
    spec_.features.push_back(
        {.name = "label",
         .dtype = DType::kInt32,
         .dims = {},
         .classes = static_cast<uint32_t>(classes_.size())});
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return files_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  SourceNames Names() const override { return {{}, classes_}; }
  std::string Where(uint64_t index) const override {
    return absl::StrCat("'", files_[index].path, "'");
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(spec_.features.size());
    ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(files_[index].path));
    const auto decode = exif_orientation_ ? DecodeUpright : DecodeImage;
    const absl::Status decoded =
        decode({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
               channels_, &example->values[0]);
    if (!decoded.ok()) {
      return absl::Status(decoded.code(),
                          absl::StrCat(Where(index), ": ", decoded.message()));
    }
    if (!classes_.empty()) SetLabel(index, example);
    return absl::OkStatus();
  }
  absl::Status ReadFeature(uint64_t index, size_t feature,
                           Example* example) const override {
    if (feature != 1) return Read(index, example);
    example->values.resize(2);
    SetLabel(index, example);
    return absl::OkStatus();
  }

 private:
  void SetLabel(uint64_t index, Example* example) const {
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] =
        static_cast<int32_t>(files_[index].label);
  }

  InputSpec spec_;
  const uint32_t channels_;
  const bool exif_orientation_;
  const std::vector<std::string> classes_;
  const std::vector<ImageFile> files_;
  const uint32_t checksum_;
};

bool IsImage(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".png") || absl::EndsWith(lower, ".jpg") ||
         absl::EndsWith(lower, ".jpeg");
}

// The names in a directory, in order; those that begin with a dot are of
// others: of version control, of notebooks, of a Mac.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(directory, error), end;
       !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!absl::StartsWith(name, ".")) names.push_back(std::move(name));
  }
  if (error) {
    return absl::ErrnoToStatus(
        error.value(), absl::StrCat("cannot read directory '", directory, "'"));
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The images in a directory, in the order of their names.
absl::StatusOr<std::vector<std::string>> ImagesIn(
    const std::string& directory) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, NamesIn(directory));
  names.erase(
      std::remove_if(names.begin(), names.end(),
                     [](const std::string& name) { return !IsImage(name); }),
      names.end());
  return names;
}

// Makes labels, which are places among `folders`, those among `classes`.
absl::Status NumberAs(const std::string& directory,
                      const std::vector<std::string>& folders,
                      const std::vector<std::string>& classes,
                      std::vector<ImageFile>* files) {
  std::vector<uint32_t> labels;
  for (const std::string& folder : folders) {
    const auto found = std::find(classes.begin(), classes.end(), folder);
    if (found == classes.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", PathIn(directory, folder),
          "' is a class that the training data do not have; they have ",
          absl::StrJoin(classes, ", ").substr(0, 150)));
    }
    labels.push_back(static_cast<uint32_t>(found - classes.begin()));
  }
  for (ImageFile& file : *files) file.label = labels[file.label];
  return absl::OkStatus();
}

}  // namespace

OpenedSource OpenImageFolders(const std::string& directory,
                              const v1::InputSource::ImageFolders& config,
                              const SourceOptions& options) {
  if (config.channels() != 1 && config.channels() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("image_folders: channels is ", config.channels(),
                     "; it must be 1 or 3"));
  }
  std::vector<ImageFile> files;
  std::string text;  // Names and sizes: what tells one set from another.
  std::vector<std::string> classes;
  const auto add = [&](const std::string& folder) -> absl::Status {
    const std::string path = PathIn(directory, folder);
    ASSIGN_OR_RETURN(const std::vector<std::string> names, ImagesIn(path));
    for (const std::string& name : names) {
      files.push_back(
          {PathIn(path, name), static_cast<uint32_t>(classes.size())});
      std::error_code error;
      absl::StrAppend(&text, folder, "/", name, " ",
                      std::filesystem::file_size(files.back().path, error),
                      "\n");
    }
    return absl::OkStatus();
  };
  if (!options.labels) RETURN_IF_ERROR(add(""));
  std::vector<std::string> empty;
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, NamesIn(directory));
  for (const std::string& folder : folders) {
    std::error_code error;
    if (!std::filesystem::is_directory(PathIn(directory, folder), error)) {
      continue;
    }
    const size_t first = files.size();
    RETURN_IF_ERROR(add(folder));
    if (files.size() == first) empty.push_back(folder);
    classes.push_back(folder);
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", directory, "' has no folders with PNG or JPEG files"));
  }
  if (options.labels && !empty.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "each folder in '", directory, "' is a class, and ",
        Shortened(absl::StrJoin(empty, ", "), 150),
        empty.size() == 1 ? " has" : " have",
        " no PNG or JPEG file (folders within it do not count); move it away, "
        "or give it images"));
  }
  if (!options.labels) {
    classes.clear();
  } else if (!options.classes.empty()) {
    RETURN_IF_ERROR(NumberAs(directory, classes, options.classes, &files));
    classes = options.classes;
  }
  const uint32_t checksum =
      Crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  return std::make_unique<ImageFolderSource>(config, std::move(classes),
                                             std::move(files), checksum);
}

}  // namespace paramd
