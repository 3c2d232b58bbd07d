#include "input/batch.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"

namespace paramd {
namespace {

template <class Named>
Named* FindNamed(absl::Span<Named> named, absl::string_view name) {
  for (Named& one : named) {
    if (one.name() == name) return &one;
  }
  return nullptr;
}

}  // namespace

const FeatureSpec* InputSpec::Find(absl::string_view name) const {
  for (const FeatureSpec& feature : features) {
    if (feature.name == name) return &feature;
  }
  return nullptr;
}

InputSpec LabelledImages(Dims dims, uint32_t classes) {
  InputSpec spec;
  spec.features.push_back({.name = "image", .dims = std::move(dims)});
  spec.features.push_back({.name = "label",
                           .dtype = DType::kInt32,
                           .dims = {},
                           .classes = classes});
  return spec;
}

void Column::Reset(const FeatureSpec& spec, uint64_t examples) {
  spec_ = spec;
  rows_ = spec.ragged ? 0 : examples;
  offsets_.assign(spec.ragged ? examples + 1 : 0, 0);
  Reserve();
}

void Column::ResizeRagged() {
  CHECK(spec_.ragged, "only a ragged column has offsets");
  CHECK(offsets_.front() == 0, "offsets begin with 0");
  rows_ = offsets_.back();
  Reserve();
}

void Column::CopyExamples(const Column& from, uint64_t begin, uint64_t end) {
  Reset(from.spec_, end - begin);
  uint64_t first = begin;
  if (spec_.ragged) {
    first = from.offsets_[begin];
    for (uint64_t i = 0; i <= end - begin; ++i) {
      offsets_[i] = from.offsets_[begin + i] - first;
    }
    ResizeRagged();
  }
  const uint64_t bytes = spec_.size() * SizeOf(spec_.dtype);
  if (rows_ == 0 || bytes == 0) return;
  std::memcpy(memory_.data(), from.memory_.data() + first * bytes,
              rows_ * bytes);
}

Tensor Column::tensor() {
  Tensor tensor{memory_.data(), spec_.dtype, {rows_}};
  tensor.dims.insert(tensor.dims.end(), spec_.dims.begin(), spec_.dims.end());
  return tensor;
}

ConstTensor Column::tensor() const {
  ConstTensor tensor{memory_.data(), spec_.dtype, {rows_}};
  tensor.dims.insert(tensor.dims.end(), spec_.dims.begin(), spec_.dims.end());
  return tensor;
}

void Column::Reserve() {
  const uint64_t bytes = rows_ * spec_.size() * SizeOf(spec_.dtype);
  if (memory_.size() < bytes) memory_.resize(bytes);
}

void Batch::Reset(const InputSpec& spec, uint64_t count) {
  examples = count;
  offsets.clear();
  indices.clear();
  names = nullptr;
  columns.resize(spec.features.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].Reset(spec.features[i], count);
  }
}

void Batch::CopyExamples(const Batch& from, uint64_t begin, uint64_t end) {
  const auto part = [&](const std::vector<uint64_t>& numbers) {
    return numbers.empty() ? numbers
                           : std::vector<uint64_t>(numbers.begin() + begin,
                                                   numbers.begin() + end);
  };
  offsets = part(from.offsets);
  indices = part(from.indices);
  names = from.names;
  examples = end - begin;
  // Without places of their own examples follow one another.
  range = from.range;
  if (offsets.empty()) {
    range.begin = from.range.begin + begin;
    range.end = from.range.begin + end;
  }
  columns.resize(from.columns.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    columns[i].CopyExamples(from.columns[i], begin, end);
  }
  taught.resize(from.taught.size());
  for (size_t i = 0; i < taught.size(); ++i) {
    taught[i].CopyExamples(from.taught[i], begin, end);
  }
}

std::string Batch::Where(uint64_t i) const {
  if (names == nullptr || indices.empty()) {
    return absl::StrCat("example ", i, " of the batch");
  }
  return names->Where(indices[i]);
}

Column* Batch::Find(absl::string_view name) {
  return FindNamed(absl::MakeSpan(columns), name);
}

const Column* Batch::Find(absl::string_view name) const {
  return FindNamed(absl::MakeConstSpan(columns), name);
}

}  // namespace paramd
