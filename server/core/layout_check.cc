#include "server/core/layout_check.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/refusal.h"
#include "tensor/keyed_rows.h"

namespace paramd {
namespace {

constexpr size_t kMaxNameBytes = 512;
// A KeySketch counts no further.
constexpr uint32_t kMostAdmitAfter = 255;

absl::Status CheckKeyed(const v1::Variable& variable) {
  const std::string& name = variable.name();
  if (!variable.sparse()) {
    return Invalid(
        name, absl::StrCat("variable '", name, "' is keyed and not sparse"));
  }
  if (variable.when_full() != v1::Variable::EVICT &&
      variable.when_full() != v1::Variable::IGNORE) {
    return Invalid(name,
                   absl::StrCat("variable '", name, "' does, when it is full, ",
                                static_cast<int>(variable.when_full()),
                                ", which is unknown here"));
  }
  if (variable.admit_after() > kMostAdmitAfter) {
    return Invalid(
        name, absl::StrCat("variable '", name, "' admits keys after ",
                           variable.admit_after(), " gradients; the most is ",
                           kMostAdmitAfter));
  }
  const uint64_t rows = variable.shape(0);
  if (rows == RowsForKeys(rows, variable.shape(1))) return absl::OkStatus();
  return Invalid(name,
                 absl::StrCat("variable '", name, "' is keyed and has ", rows,
                              " rows; above ", BucketRows(variable.shape(1)),
                              " they must be a multiple of that"));
}

}  // namespace

absl::StatusOr<RowShape> CheckVariable(const v1::Variable& variable) {
  const std::string& name = variable.name();
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Invalid("layout",
                   absl::StrCat("a variable's name has ", name.size(),
                                " bytes; it must have 1 to ", kMaxNameBytes));
  }
  if (variable.dtype() != v1::FLOAT32) {
    return Invalid(name, absl::StrCat("variable '", name, "' has dtype ",
                                      static_cast<int>(variable.dtype()),
                                      "; only FLOAT32 is known here"));
  }
  const v1::Initializer& init = variable.initializer();
  if (init.kind() != v1::Initializer::ZEROS &&
      init.kind() != v1::Initializer::UNIFORM) {
    return Invalid(name, absl::StrCat("variable '", name, "' has initializer ",
                                      static_cast<int>(init.kind()),
                                      ", which is unknown here"));
  }
  if (!std::isfinite(init.low()) || !std::isfinite(init.high())) {
    return Invalid(name, absl::StrCat("variable '", name, "' starts between ",
                                      init.low(), " and ", init.high()));
  }
  auto shape = ToRowShape(variable.shape());
  if (!shape.ok()) {
    return Invalid(name, absl::StrCat("variable '", name,
                                      "': ", shape.status().message()));
  }
  if (variable.sparse()) {
    const absl::Status sparse = CheckSparseShape(variable.shape());
    if (!sparse.ok()) return Invalid(name, sparse.message());
    if (variable.untrained()) {
      return Invalid(name, "a sparse variable is trained");
    }
  }
  if (!v1::Variable::RowFormat_IsValid(variable.row_format()) ||
      (!variable.keyed() &&
       variable.row_format() == v1::Variable::ROW_FORMAT_BF16)) {
    return Invalid(
        name, absl::StrCat("variable '", name, "' has row format ",
                           static_cast<int>(variable.row_format()),
                           "; only rows that belong to keys are kept as bf16"));
  }
  if (variable.keyed()) RETURN_IF_ERROR(CheckKeyed(variable));
  return shape;
}

absl::Status CheckBuckets(const Slice& slice) {
  if (!slice.keyed()) return absl::OkStatus();
  const uint64_t bucket = BucketRows(slice.row_elements());
  const RowRange& rows = slice.rows();
  if (rows.begin % bucket == 0 &&
      (rows.end % bucket == 0 || rows.end == slice.variable().shape(0))) {
    return absl::OkStatus();
  }
  return Invalid(slice.variable().name(),
                 absl::StrCat("rows ", rows.begin, " to ", rows.end, " of '",
                              slice.variable().name(),
                              "' are not whole buckets of ", bucket));
}

}  // namespace paramd
