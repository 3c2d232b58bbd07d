#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "worker/input/decode_image.h"
#include "worker/input/file.h"
#include "worker/input/sources.h"

namespace paramd {
namespace {

struct ImageFile {
  std::string path;
  uint32_t label = 0;
};

class ImageFolderSource : public ExampleSource {
 public:
  ImageFolderSource(uint32_t channels, uint32_t classes,
                    std::vector<ImageFile> files, uint32_t checksum)
      : channels_(channels), files_(std::move(files)), checksum_(checksum) {
    spec_.features.push_back(
        {.name = "image", .dtype = DType::kUInt8, .dims = {0, 0, channels}});
    spec_.features.push_back({.name = "label",
                              .dtype = DType::kInt32,
                              .dims = {},
                              .classes = classes});
  }

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return files_.size(); }
  v1::DataSet Describe() const override {
    return DescribeFiles(spec_, size(), checksum_);
  }
  std::string Where(uint64_t index) const override {
    return absl::StrCat("'", files_[index].path, "'");
  }

  absl::Status Read(uint64_t index, Example* example) const override {
    example->values.resize(2);
    ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(files_[index].path));
    const absl::Status decoded = DecodeImage(
        {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()},
        channels_, &example->values[0]);
    if (!decoded.ok()) {
      return absl::Status(decoded.code(),
                          absl::StrCat(Where(index), ": ", decoded.message()));
    }
    example->values[1].Reset(DType::kInt32, {});
    example->values[1].values<int32_t>()[0] =
        static_cast<int32_t>(files_[index].label);
    return absl::OkStatus();
  }

 private:
  InputSpec spec_;
  const uint32_t channels_;
  const std::vector<ImageFile> files_;
  const uint32_t checksum_;
};

bool IsImage(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".png") || absl::EndsWith(lower, ".jpg") ||
         absl::EndsWith(lower, ".jpeg");
}

// The names in a directory, in order.
absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(directory, error), end;
       !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  if (error) {
    return absl::ErrnoToStatus(
        error.value(), absl::StrCat("cannot read directory '", directory, "'"));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

OpenedSource OpenImageFolders(const std::string& directory,
                              const v1::InputSource::ImageFolders& config) {
  if (config.channels() != 1 && config.channels() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("image_folders: channels is ", config.channels(),
                     "; it must be 1 or 3"));
  }
  std::vector<ImageFile> files;
  std::string text;  // Names and sizes: what tells one set from another.
  uint32_t classes = 0;
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, NamesIn(directory));
  for (const std::string& folder : folders) {
    const std::string path = PathIn(directory, folder);
    if (!std::filesystem::is_directory(path)) continue;
    ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(path));
    for (const std::string& name : names) {
      if (!IsImage(name)) continue;
      files.push_back({PathIn(path, name), classes});
      std::error_code error;
      absl::StrAppend(&text, folder, "/", name, " ",
                      std::filesystem::file_size(files.back().path, error),
                      "\n");
    }
    ++classes;
  }
  if (files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", directory, "' has no folders with PNG or JPEG files"));
  }
  const uint32_t checksum =
      Crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()});
  return std::make_unique<ImageFolderSource>(config.channels(), classes,
                                             std::move(files), checksum);
}

}  // namespace paramd
