#include "input/fuzz/read_source.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fuzz/memory_file.h"
#include "base/fuzz/pieces.h"

namespace paramd::fuzz {
namespace {

MemoryFile& File() {
  static auto* const file = new MemoryFile();
  return *file;
}

template <class T>
void CheckClasses(const FeatureSpec& feature, const OwnedTensor& tensor) {
  for (const T value : tensor.values<T>()) {
    // Padding is -1.
    CHECK(value >= -1 &&
              (value < 0 || static_cast<uint64_t>(value) < feature.classes),
          "a class is one of those that there are");
  }
}

void CheckTensor(const FeatureSpec& feature, const OwnedTensor& tensor) {
  CHECK(tensor.dtype() == feature.dtype, "of the type that the spec says");
  CHECK(tensor.dims().size() == feature.dims.size(), "of its rank");
  for (size_t d = 0; d < feature.dims.size(); ++d) {
    CHECK(feature.dims[d] == 0 || tensor.dims()[d] == feature.dims[d],
          "of its shape");
  }
  if (feature.classes == 0) return;
  if (feature.dtype == DType::kInt32) CheckClasses<int32_t>(feature, tensor);
  if (feature.dtype == DType::kInt64) CheckClasses<int64_t>(feature, tensor);
}

}  // namespace

InputFiles OneFile(absl::string_view content) {
  File().Write(content);
  InputFiles files;
  files.push_back(
      paramd::InputFile::Adopt("input", File().Duplicate(), content.size()));
  return files;
}

const std::string& PathOfOneFile(absl::string_view content) {
  File().Write(content);
  return File().path();
}

void CheckSource(const OpenedSource& source) {
  if (!source.ok()) return CheckRefusal(source.status());
  // Whoever opens a file by its name refuses one without examples.
  if ((*source)->size() == 0) return;
  const InputSpec& spec = (*source)->spec();
  (*source)->Describe();
  Example example;
  for (uint64_t i = 0; i < std::min((*source)->size(), kMostRead); ++i) {
    (*source)->Where(i);
    const absl::Status read = (*source)->Read(i, &example);
    if (!read.ok()) {
      CheckRefusal(read);
      continue;
    }
    CHECK(example.values.size() == spec.features.size(),
          "an example has every feature");
    for (size_t f = 0; f < spec.features.size(); ++f) {
      CheckTensor(spec.features[f], example.values[f]);
    }
  }
}

}  // namespace paramd::fuzz
