#include "client/core/placement.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

absl::StatusOr<PlacedSlice> Place(const v1::Slice& slice, const v1::Layout& l,
                                  uint32_t servers) {
  if (slice.variable() >= static_cast<uint32_t>(l.variables_size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice names variable ", slice.variable(),
                     "; the layout has ", l.variables_size()));
  }
  const v1::Variable& variable = l.variables(slice.variable());
  if (slice.server() >= servers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice of '", variable.name(), "' names server ",
                     slice.server(), "; there are ", servers));
  }
  ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(variable.shape()));
  if (slice.row_begin() >= slice.row_end() || slice.row_end() > shape.rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slice of '", variable.name(), "' has rows ", slice.row_begin(),
        " to ", slice.row_end(), "; the variable has ", shape.rows));
  }
  const uint64_t elements =
      (slice.row_end() - slice.row_begin()) * shape.row_elements;
  const BlockCut cut = BlockCut::Of(variable.sparse(), shape.row_elements);
  if (variable.keyed() &&
      slice.row_begin() % BucketRows(shape.row_elements) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slice of '", variable.name(), "' begins at row ", slice.row_begin(),
        ", in the middle of a bucket of ", BucketRows(shape.row_elements)));
  }
  return PlacedSlice{.variable = slice.variable(),
                     .rows = {slice.row_begin(), slice.row_end()},
                     .server = slice.server(),
                     .element_begin = slice.row_begin() * shape.row_elements,
                     .elements = elements,
                     .blocks = static_cast<uint32_t>(cut.Count(elements)),
                     .row_elements = shape.row_elements,
                     .sparse = variable.sparse(),
                     .keyed = variable.keyed()};
}

}  // namespace

absl::StatusOr<Placement> Placement::Create(const v1::Layout& layout,
                                            uint32_t servers) {
  Placement placement;
  placement.servers_ = servers;
  for (const v1::Variable& variable : layout.variables()) {
    ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(variable.shape()));
    if (variable.keyed() && !variable.sparse()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", variable.name(), "' is keyed and not sparse"));
    }
    if (variable.sparse()) {
      RETURN_IF_ERROR(CheckSparseShape(variable.shape()));
      if (variable.keyed()) {
        RETURN_IF_ERROR(CheckKeyedRows(shape.rows, shape.row_elements));
      }
      placement.sparse_.push_back(placement.elements_.size());
    }
    placement.keyed_.push_back(variable.keyed());
    placement.row_elements_.push_back(shape.row_elements);
    placement.elements_.push_back(shape.rows * shape.row_elements);
    placement.names_.push_back(variable.name());
  }
  std::vector<uint64_t> covered(layout.variables_size(), 0);
  for (const v1::Slice& slice : layout.slices()) {
    ASSIGN_OR_RETURN(const PlacedSlice placed, Place(slice, layout, servers));
    if (placed.element_begin != covered[placed.variable]) {
      return absl::InvalidArgumentError(
          absl::StrCat("slices of '", placement.names_[placed.variable],
                       "' leave a gap or overlap at row ", placed.rows.begin));
    }
    covered[placed.variable] += placed.elements;
    placement.slices_.push_back(placed);
  }
  for (size_t i = 0; i < covered.size(); ++i) {
    if (covered[i] != placement.elements_[i]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slices of '", placement.names_[i], "' cover ", covered[i], " of ",
          placement.elements_[i], " elements"));
    }
  }
  return placement;
}

}  // namespace paramd
