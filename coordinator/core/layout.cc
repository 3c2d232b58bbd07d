#include "coordinator/core/layout.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

constexpr size_t kMaxVariables = 1000000;
constexpr size_t kMaxNameBytes = 512;

absl::Status CheckVariable(const v1::Variable& variable) {
  if (variable.name().empty() || variable.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a variable's name has ", variable.name().size(),
                     " bytes; it needs 1 to ", kMaxNameBytes));
  }
  if (variable.dtype() != v1::FLOAT32) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", variable.name(), "' is not float32"));
  }
  return absl::OkStatus();
}

void CutIntoSlices(const RowShape& shape, uint32_t index, v1::Layout* layout) {
  const uint64_t row_bytes = shape.row_elements * sizeof(float);
  const uint64_t rows = std::max<uint64_t>(1, kSliceBytes / row_bytes);
  for (uint64_t begin = 0; begin < shape.rows; begin += rows) {
    v1::Slice* slice = layout->add_slices();
    slice->set_variable(index);
    slice->set_row_begin(begin);
    slice->set_row_end(std::min(shape.rows, begin + rows));
  }
}

void GiveToServers(const std::vector<RowShape>& shapes, uint32_t servers,
                   v1::Layout* layout) {
  const auto bytes = [&](int s) {
    const v1::Slice& slice = layout->slices(s);
    return (slice.row_end() - slice.row_begin()) *
           shapes[slice.variable()].row_elements;
  };
  std::vector<int> order(layout->slices_size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return bytes(a) > bytes(b); });
  std::vector<uint64_t> load(servers, 0);
  for (const int s : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += bytes(s);
    layout->mutable_slices(s)->set_server(
        static_cast<uint32_t>(least - load.begin()));
  }
}

}  // namespace

absl::StatusOr<v1::Layout> PlanLayout(
    const std::vector<v1::Variable>& variables, uint32_t servers) {
  if (variables.size() > kMaxVariables) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", variables.size(), " variables; at most ",
        kMaxVariables, " are supported"));
  }
  v1::Layout layout;
  std::vector<RowShape> shapes;
  absl::flat_hash_set<std::string> names;
  for (const v1::Variable& variable : variables) {
    RETURN_IF_ERROR(CheckVariable(variable));
    if (!names.insert(variable.name()).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two variables are named '", variable.name(), "'"));
    }
    const auto shape = ToRowShape(variable.shape());
    if (!shape.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "variable '", variable.name(), "': ", shape.status().message()));
    }
    CutIntoSlices(*shape, layout.variables_size(), &layout);
    shapes.push_back(*shape);
    *layout.add_variables() = variable;
  }
  GiveToServers(shapes, servers, &layout);
  return layout;
}

}  // namespace paramd
