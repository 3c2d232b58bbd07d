#include "tests/sim/trained_run.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "checkpoint/manifest.h"

namespace paramd {
namespace {

template <typename Number>
std::vector<Number> PartOf(const std::vector<Number>& all, uint64_t begin,
                           uint64_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

}  // namespace

TrainedRun::TrainedRun(const SimStorage& storage)
    : storage_(storage), manifest_(storage.committed().back()) {}

std::vector<std::string> TrainedRun::names() const {
  std::vector<std::string> names;
  for (const v1::Variable& variable : manifest_.variables()) {
    names.push_back(variable.name());
  }
  return names;
}

absl::StatusOr<TrainedTensors::Tensor> TrainedRun::Find(
    const std::string& name) {
  for (const v1::Variable& variable : manifest_.variables()) {
    if (variable.name() != name) continue;
    return Tensor{std::string(SafetensorsDType(variable.dtype())),
                  {variable.shape().begin(), variable.shape().end()},
                  SimStorage::PathOf(manifest_.snapshot()),
                  variable.keyed()};
  }
  return absl::NotFoundError(absl::StrCat("there is no '", name, "'"));
}

absl::Status TrainedRun::Read(absl::Span<const Rows> wanted, BufferChain* out) {
  for (const auto& [name, rows] : wanted) {
    ASSIGN_OR_RETURN(const Tensor tensor, Find(name));
    ASSIGN_OR_RETURN(const RowShape shape, ToRowShape(tensor.shape));
    ASSIGN_OR_RETURN(const std::vector<float> values,
                     storage_.ReadVariable(manifest_, name, /*slot=*/""));
    out->push_back(Buffer::Copy(
        AsBytes<float>(PartOf(values, rows.begin * shape.row_elements,
                              rows.end * shape.row_elements))));
  }
  return absl::OkStatus();
}

absl::Status TrainedRun::ReadKeys(const Rows& wanted, Keys* out) {
  const auto& [name, rows] = wanted;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> keys,
                   storage_.ReadRowNumbers(manifest_, name, "key"));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> used,
                   storage_.ReadRowNumbers(manifest_, name, "used"));
  out->keys = PartOf(keys, rows.begin, rows.end);
  out->used = PartOf(used, rows.begin, rows.end);
  return absl::OkStatus();
}

}  // namespace paramd
