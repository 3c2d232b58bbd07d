#ifndef PARAMD_INPUT_IDX_SOURCE_H_
#define PARAMD_INPUT_IDX_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"

#include "input/example_source.h"

namespace paramd {

// Images and labels of two IDX files, held in memory as bytes; a byte b is read
// as b / 255. Immutable, hence thread-safe.
class IdxSource : public ExampleSource {
 public:
  // Reads an image file (3 dimensions) and its label file (1 dimension);
  // without a path of that, examples have no label. Without `expected` the
  // classes are one more than the highest label. With it (the spec of the
  // training set, when the test set is opened), images must have its shape and
  // labels must be below its classes. REQUIRES: `expected` is one of
  // LabelledImages. Errors name the paths: those of ReadIdxFile;
  // INVALID_ARGUMENT if there are not as many labels as images, if a label is
  // out of range, or if the images have another shape.
  static absl::StatusOr<std::unique_ptr<IdxSource>> Open(
      const std::string& images_path, const std::string& labels_path,
      const absl::optional<InputSpec>& expected = absl::nullopt);

  const InputSpec& spec() const override { return spec_; }
  uint64_t size() const override { return size_; }
  // Goes through all bytes: they lie in memory, and a sample would miss a
  // label.
  v1::DataSet Describe() const override;
  absl::Status Read(uint64_t index, Example* example) const override;

 private:
  IdxSource(InputSpec spec, uint64_t size, std::vector<uint8_t> images,
            std::vector<uint8_t> labels);

  const InputSpec spec_;
  const uint64_t size_;
  const std::vector<uint8_t> images_;
  const std::vector<uint8_t> labels_;  // None, or one for each image.
};

}  // namespace paramd

#endif  // PARAMD_INPUT_IDX_SOURCE_H_
