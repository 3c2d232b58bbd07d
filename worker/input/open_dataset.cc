#include "worker/input/open_dataset.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "worker/input/idx_dataset.h"

namespace paramd {
namespace {

std::string PathIn(const std::string& directory, const std::string& name) {
  if (directory.empty() || absl::StartsWith(name, "/")) return name;
  return absl::StrCat(directory, absl::EndsWith(directory, "/") ? "" : "/",
                      name);
}

absl::StatusOr<std::unique_ptr<Dataset>> Open(
    const v1::InputConfig& config, const std::string& images,
    const std::string& labels, const absl::optional<InputSpec>& expected) {
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
      std::unique_ptr<Dataset> dataset,
      IdxDataset::Open(PathIn(config.directory(), images),
                       PathIn(config.directory(), labels), expected));
  return dataset;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTrainingData(
    const v1::InputConfig& config) {
  return Open(config, config.train_images(), config.train_labels(),
              absl::nullopt);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTestData(
    const v1::InputConfig& config, const InputSpec& training) {
  return Open(config, config.test_images(), config.test_labels(), training);
}

}  // namespace paramd
