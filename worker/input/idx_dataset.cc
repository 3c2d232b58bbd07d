#include "worker/input/idx_dataset.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "tensor/buffer.h"
#include "worker/input/idx_file.h"

namespace paramd {
namespace {

std::array<float, 256> MakeFractions() {
  std::array<float, 256> fractions;
  for (size_t i = 0; i < fractions.size(); ++i) {
    fractions[i] = static_cast<float>(i) / 255.0f;
  }
  return fractions;
}

absl::Status CheckLabels(const std::string& path,
                         const std::vector<uint8_t>& labels, uint32_t classes) {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] >= classes) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", path, "' gives example ", i, " the label ",
                       labels[i], "; labels must be below ", classes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<IdxDataset>> IdxDataset::Open(
    const std::string& images_path, const std::string& labels_path,
    const absl::optional<InputSpec>& expected) {
  // Labels first: they are small, so a wrong directory is noticed at once.
  ASSIGN_OR_RETURN(IdxFile labels, ReadIdxFile(labels_path, 1));
  ASSIGN_OR_RETURN(IdxFile images, ReadIdxFile(images_path, 3));
  if (images.shape[0] != labels.shape[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", images_path, "' has ", images.shape[0], " images, but '",
        labels_path, "' has ", labels.shape[0], " labels"));
  }
  InputSpec spec;
  spec.example_shape.assign(images.shape.begin() + 1, images.shape.end());
  if (!expected.has_value()) {
    spec.classes =
        1u + *std::max_element(labels.bytes.begin(), labels.bytes.end());
  } else {
    if (spec.example_shape != expected->example_shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", images_path, "' has images of ",
          absl::StrJoin(spec.example_shape, "x"), "; those trained on have ",
          absl::StrJoin(expected->example_shape, "x")));
    }
    spec.classes = expected->classes;
    RETURN_IF_ERROR(CheckLabels(labels_path, labels.bytes, spec.classes));
  }
  return std::unique_ptr<IdxDataset>(new IdxDataset(
      std::move(spec), std::move(images.bytes), std::move(labels.bytes)));
}

IdxDataset::IdxDataset(InputSpec spec, std::vector<uint8_t> images,
                       std::vector<uint8_t> labels)
    : spec_(std::move(spec)),
      images_(std::move(images)),
      labels_(std::move(labels)) {}

v1::DataSet IdxDataset::Describe() const {
  v1::DataSet data;
  data.set_examples(labels_.size());
  for (const uint64_t dimension : spec_.example_shape) {
    data.add_example_shape(dimension);
  }
  data.set_example_type("uint8");
  data.set_classes(spec_.classes);
  data.set_examples_crc32c(Crc32c(AsBytes<uint8_t>(images_)));
  data.set_labels_crc32c(Crc32c(AsBytes<uint8_t>(labels_)));
  return data;
}

absl::Status IdxDataset::Read(absl::Span<const uint32_t> indices,
                              Batch* batch) const {
  static const std::array<float, 256> kFractions = MakeFractions();
  const size_t width = spec_.example_size();
  batch->labels.resize(indices.size());
  batch->examples.resize(indices.size() * width);
  float* out = batch->examples.data();
  for (size_t i = 0; i < indices.size(); ++i) {
    CHECK(indices[i] < labels_.size(), "an index is below the size");
    batch->labels[i] = labels_[indices[i]];
    const uint8_t* in = images_.data() + indices[i] * width;
    for (size_t j = 0; j < width; ++j) *out++ = kFractions[in[j]];
  }
  return absl::OkStatus();
}

}  // namespace paramd
