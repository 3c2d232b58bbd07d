#include "worker/core/same_model.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paramd {
namespace {

// "'w' of 784x128"
std::string TextOf(const v1::Variable& variable) {
  return absl::StrCat(
      "'", variable.name(), "' of ",
      variable.shape().empty() ? "one number"
                               : absl::StrJoin(variable.shape(), "x"),
      variable.untrained() ? ", untrained" : "",
      variable.sparse() ? ", sparse" : "", variable.keyed() ? ", keyed" : "",
      variable.when_full() == v1::Variable::IGNORE
          ? ", ignores new keys when it is full"
          : "",
      variable.admit_after() > 1
          ? absl::StrCat(", admits keys after ", variable.admit_after(),
                         " gradients")
          : "",
      variable.expire_after() > 0
          ? absl::StrCat(", expires keys after ", variable.expire_after(),
                         " pushes")
          : "",
      variable.memory_rows() > 0
          ? absl::StrCat(", keeps ", variable.memory_rows(), " rows in memory")
          : "",
      variable.row_format() == v1::Variable::ROW_FORMAT_BF16
          ? ", keeps rows as bf16"
          : "",
      variable.compute_dtype().empty()
          ? ""
          : absl::StrCat(", computed in ", variable.compute_dtype()));
}

}  // namespace

absl::Status CheckSameModel(uint32_t worker,
                            absl::Span<const v1::Variable> ours,
                            const v1::Layout& layout) {
  const size_t theirs = static_cast<size_t>(layout.variables_size());
  for (size_t v = 0; v < std::max(ours.size(), theirs); ++v) {
    const std::string we = v < ours.size() ? TextOf(ours[v]) : "no more";
    const std::string they =
        v < theirs ? TextOf(layout.variables(static_cast<int>(v))) : "no more";
    if (we == they) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the model of worker-", worker, " is not the chief's: its variable ",
        v + 1, " is ", we, ", the chief's is ", they,
        "; every process must build the same model"));
  }
  return absl::OkStatus();
}

}  // namespace paramd
