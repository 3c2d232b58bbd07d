#include "input/window_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "input/transform.h"

namespace paramd {

absl::StatusOr<std::unique_ptr<WindowStage>> WindowStage::Create(
    const Stage& upstream, const v1::InputStage::Window& config) {
  Shape shape;
  shape.size = config.size();
  shape.shift = config.shift() > 0 ? config.shift() : shape.size;
  shape.stride = std::max(1u, config.stride());
  CHECK(shape.size > 0, "a window has an example");
  InputSpec spec = upstream.spec();
  shape.is_last.resize(spec.features.size());
  for (const std::string& name : config.last()) {
    ASSIGN_OR_RETURN(const size_t feature, FindFeature(spec, name));
    shape.is_last[feature] = true;
  }
  const uint64_t examples = upstream.size();
  const uint64_t span = (shape.size - 1) * shape.stride + 1;
  const uint64_t whole =
      examples < span ? 0 : (examples - span) / shape.shift + 1;
  const uint64_t all = (examples + shape.shift - 1) / shape.shift;
  const uint64_t size = config.drop_remainder() ? whole : all;
  if (size == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("with drop_remainder no window is left: there are ",
                     examples, " examples, and one needs ", span));
  }
  for (size_t f = 0; f < spec.features.size(); ++f) {
    if (shape.is_last[f]) continue;
    Dims& dims = spec.features[f].dims;
    dims.insert(dims.begin(), size == whole ? shape.size : 0);
  }
  RETURN_IF_ERROR(CheckSizes(spec));
  return std::unique_ptr<WindowStage>(
      new WindowStage(upstream, std::move(spec), size,
                      size - std::min(size, whole), std::move(shape)));
}

WindowStage::WindowStage(const Stage& upstream, InputSpec spec, uint64_t size,
                         uint64_t short_windows, Shape shape)
    : Stage("window", std::move(spec), size),
      upstream_(upstream),
      shape_(std::move(shape)),
      short_windows_(short_windows) {}

uint64_t WindowStage::ExamplesAt(uint64_t offset) const {
  const uint64_t left = upstream_.size() - offset * shape_.shift;
  return std::min(shape_.size, (left - 1) / shape_.stride + 1);
}

absl::Status WindowStage::Take(size_t feature, uint64_t i, uint64_t count,
                               const Example& one, Example* example) const {
  const OwnedTensor& from = one.values[feature];
  OwnedTensor& to = example->values[feature];
  if (shape_.is_last[feature]) {
    if (i + 1 < count) return absl::OkStatus();
    to.Reset(from.dtype(), from.dims());
    std::copy(from.bytes().begin(), from.bytes().end(), to.bytes().begin());
    return absl::OkStatus();
  }
  if (i == 0) {
    Dims dims = from.dims();
    dims.insert(dims.begin(), count);
    to.Reset(from.dtype(), dims);
  }
  const bool fits = to.dtype() == from.dtype() &&
                    std::equal(from.dims().begin(), from.dims().end(),
                               to.dims().begin() + 1, to.dims().end());
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", spec().features[feature].name, "' is ",
        ShapeText(from.dtype(), from.dims()),
        ", but not in all examples of the window: bring it to one shape before "
        "by resize, crop or pad"));
  }
  const size_t bytes = from.bytes().size();
  std::copy(from.bytes().begin(), from.bytes().end(),
            to.bytes().begin() + static_cast<ptrdiff_t>(i * bytes));
  return absl::OkStatus();
}

absl::Status WindowStage::DoGet(const ExamplePlace& place,
                                Example* example) const {
  Example one = spare_.Take();
  example->dropped = false;
  example->values.resize(spec().features.size());
  const uint64_t count = ExamplesAt(place.offset);
  uint64_t number = 0;
  absl::Status status;
  for (uint64_t i = 0; i < count && status.ok(); ++i) {
    status = upstream_.Get(
        {place.epoch, place.offset * shape_.shift + i * shape_.stride}, &one);
    // On error, that of the example that it is about.
    if (i == 0 || !status.ok()) number = one.index;
    for (size_t f = 0; f < spec().features.size() && status.ok(); ++f) {
      status = Take(f, i, count, one, example);
      if (!status.ok()) number = one.index;
    }
  }
  example->index = number;
  spare_.GiveBack(std::move(one));
  return status;
}

absl::Status WindowStage::GetFeature(const ExamplePlace& place, size_t feature,
                                     Example* example) const {
  Example one = spare_.Take();
  example->dropped = false;
  example->values.resize(spec().features.size());
  const uint64_t count = ExamplesAt(place.offset);
  absl::Status status;
  for (uint64_t i = shape_.is_last[feature] ? count - 1 : 0;
       i < count && status.ok(); ++i) {
    status = upstream_.GetFeature(
        {place.epoch, place.offset * shape_.shift + i * shape_.stride}, feature,
        &one);
    example->index = one.index;
    if (status.ok()) status = Take(feature, i, count, one, example);
  }
  if (status.ok()) example->index = IndexAt(place);
  spare_.GiveBack(std::move(one));
  return status;
}

}  // namespace paramd
