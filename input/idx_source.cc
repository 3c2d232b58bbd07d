#include "input/idx_source.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/check.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "input/idx_file.h"
#include "tensor/buffer.h"

namespace paramd {
namespace {

// Of the features of LabelledImages.
constexpr size_t kImage = 0;
constexpr size_t kLabel = 1;

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

absl::StatusOr<std::unique_ptr<IdxSource>> IdxSource::Open(
    const std::string& images_path, const std::string& labels_path,
    const absl::optional<InputSpec>& expected) {
  // Labels first: they are small, so a wrong directory is noticed at once.
  IdxFile labels;
  const bool has_labels = !labels_path.empty();
  if (has_labels) {
    ASSIGN_OR_RETURN(labels, ReadIdxFile(labels_path, 1));
  }
  ASSIGN_OR_RETURN(IdxFile images, ReadIdxFile(images_path, 3));
  const uint64_t size = images.shape[0];
  if (has_labels && size != labels.shape[0]) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", images_path, "' has ", size, " images, but '",
                     labels_path, "' has ", labels.shape[0], " labels"));
  }
  InputSpec spec;
  const Dims dims(images.shape.begin() + 1, images.shape.end());
  if (!expected.has_value()) {
    const uint32_t classes =
        has_labels
            ? 1u + *std::max_element(labels.bytes.begin(), labels.bytes.end())
            : 0;
    spec = LabelledImages(dims, classes);
  } else {
    spec = *expected;
    const Dims& trained = spec.features[kImage].dims;
    if (dims != trained) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", images_path, "' has images of ", absl::StrJoin(dims, "x"),
          "; those trained on have ", absl::StrJoin(trained, "x")));
    }
    RETURN_IF_ERROR(
        CheckLabels(labels_path, labels.bytes, spec.features[kLabel].classes));
  }
  if (!has_labels) spec.features.pop_back();
  return std::unique_ptr<IdxSource>(new IdxSource(
      std::move(spec), size, std::move(images.bytes), std::move(labels.bytes)));
}

IdxSource::IdxSource(InputSpec spec, uint64_t size, std::vector<uint8_t> images,
                     std::vector<uint8_t> labels)
    : spec_(std::move(spec)),
      size_(size),
      images_(std::move(images)),
      labels_(std::move(labels)) {}

v1::DataSet IdxSource::Describe() const {
  v1::DataSet data;
  data.set_examples(size_);
  for (const uint64_t dimension : spec_.features[kImage].dims) {
    data.add_example_shape(dimension);
  }
  data.set_example_type("uint8");
  if (!labels_.empty()) data.set_classes(spec_.features[kLabel].classes);
  data.set_examples_crc32c(Crc32c(AsBytes<uint8_t>(images_)));
  data.set_labels_crc32c(Crc32c(AsBytes<uint8_t>(labels_)));
  return data;
}

absl::Status IdxSource::Read(uint64_t index, Example* example) const {
  static const std::array<float, 256> kFractions = MakeFractions();
  CHECK(index < size_, "an index is below the size");
  const FeatureSpec& image = spec_.features[kImage];
  const size_t width = image.size();
  example->values.resize(spec_.features.size());
  if (!labels_.empty()) {
    example->values[kLabel].Reset(DType::kInt32, {});
    example->values[kLabel].values<int32_t>()[0] = labels_[index];
  }
  example->values[kImage].Reset(DType::kFloat32, image.dims);
  float* out = example->values[kImage].values<float>().data();
  const uint8_t* in = images_.data() + index * width;
  for (size_t j = 0; j < width; ++j) out[j] = kFractions[in[j]];
  return absl::OkStatus();
}

}  // namespace paramd
