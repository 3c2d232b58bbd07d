#include "coordinator/core/variable_match.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "config/name_pattern.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Differences that are said; of a large model all may differ.
constexpr size_t kMost = 50;

struct NamedShape {
  std::string text;
  // Equal where the checkpoint has what the job wants.
  std::string compared;
};
using ShapesByName = std::map<std::string, NamedShape>;

// Counts are saved by block: where the blocks of its rows are not those of a
// dense variable, it can't become one, nor have been one.
bool HasBlocksOfItsOwn(const v1::Variable& variable) {
  return variable.sparse() && CheckSparseShape(variable.shape()).ok() &&
         BlockCut::OfSparse(variable.shape(1)) != BlockCut::OfDense();
}

template <typename Variables>
ShapesByName ShapesOf(const Variables& variables) {
  ShapesByName shapes;
  for (const v1::Variable& variable : variables) {
    const absl::Span<const uint64_t> dimensions(
        variable.shape().data(), static_cast<size_t>(variable.shape_size()));
    NamedShape& shape = shapes[variable.name()];
    shape.text = ShapeName(dimensions);
    if (variable.keyed()) {
      shape.text += " by key";
      // Its rows are found whatever the capacity was.
      shape.compared =
          absl::StrCat("by key ", ShapeName(dimensions.subspan(
                                      std::min<size_t>(1, dimensions.size()))));
      continue;
    }
    if (HasBlocksOfItsOwn(variable)) shape.text += " by row";
    shape.compared = shape.text;
  }
  return shapes;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> CheckVariables(
    const std::string& path, const v1::Manifest& manifest,
    const std::vector<v1::Variable>& variables,
    absl::string_view allow_missing) {
  const ShapesByName saved = ShapesOf(manifest.variables());
  const ShapesByName wanted = ShapesOf(variables);
  std::vector<std::string> allowed;
  std::vector<std::string> differences;
  const auto add = [&](const std::string& name, std::string sentence) {
    (MatchesAny(allow_missing, name) ? allowed : differences)
        .push_back(std::move(sentence));
  };
  for (const auto& [name, shape] : wanted) {
    const auto there = saved.find(name);
    if (there == saved.end()) {
      add(name, absl::StrCat("'", name, "' (", shape.text, ") is not in it"));
    } else if (there->second.compared != shape.compared) {
      add(name, absl::StrCat("'", name, "' has the shape ", there->second.text,
                             " there and ", shape.text, " here"));
    }
  }
  for (const auto& [name, shape] : saved) {
    if (wanted.count(name) != 0) continue;
    add(name, absl::StrCat("'", name, "' (", shape.text,
                           ") is not one of the job's"));
  }
  if (differences.empty()) return allowed;
  const size_t all = differences.size();
  if (all > kMost) {
    differences.resize(kMost);
    differences.push_back(absl::StrCat("and ", all - kMost, " more"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint '", path,
      "' has other variables than the job: ", absl::StrJoin(differences, "; "),
      "; checkpoint.allow_missing names those with which this run may go on "
      "all the same; a job with another model may also be another one, with a "
      "run_dir and a checkpoint.directory of its own, and begin with what fits "
      "of this (warm_start)"));
}

}  // namespace paramd
