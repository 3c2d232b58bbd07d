#include "tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

constexpr size_t kMaxRank = 8;
constexpr uint64_t kMaxElements = uint64_t{1} << 48;

}  // namespace

absl::StatusOr<RowShape> ToRowShape(absl::Span<const uint64_t> shape) {
  if (shape.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape has ", shape.size(), " dimensions; at most 8 are supported"));
  }
  uint64_t elements = 1;
  for (const uint64_t dimension : shape) {
    if (dimension == 0 || dimension > kMaxElements / elements) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeName(shape),
                       " has a zero dimension or more than 2^48 elements"));
    }
    elements *= dimension;
  }
  const uint64_t rows = shape.empty() ? 1 : shape[0];
  return RowShape{rows, elements / rows};
}

absl::Status CheckSparseShape(absl::Span<const uint64_t> shape) {
  if (shape.size() == 2 && shape[1] > 0 && shape[1] <= kMaxBlockElements) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "a sparse variable has two dimensions, of which the second is at most ",
      kMaxBlockElements, "; the shape is ", ShapeName(shape)));
}

uint64_t RowsThatFit(uint64_t bytes, uint64_t row_elements) {
  return std::max<uint64_t>(1, bytes / (row_elements * sizeof(float)));
}

uint64_t MostSliceRows(bool sparse, uint64_t row_elements) {
  const uint64_t rows = RowsThatFit(kSliceBytes, row_elements);
  if (!sparse) return rows;
  const uint64_t blocks = RowsThatFit(kSliceBytes, kMaxBlockElements);
  return std::clamp<uint64_t>(blocks * BlockRows(row_elements), 1, rows);
}

std::string ShapeName(absl::Span<const uint64_t> shape) {
  return shape.empty() ? "scalar" : absl::StrJoin(shape, "x");
}

}  // namespace paramd
