#include "coordinator/core/variable_match.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "config/name_pattern.h"
#include "tensor/shape.h"

namespace paramd {
namespace {

// Differences that are said; of a large model all may differ.
constexpr size_t kMost = 50;

using ShapesByName = std::map<std::string, std::string>;

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
    shapes[variable.name()] = ShapeName(
        {variable.shape().data(), static_cast<size_t>(variable.shape_size())});
    if (variable.keyed()) {
      shapes[variable.name()] += " by key";
    } else if (HasBlocksOfItsOwn(variable)) {
      shapes[variable.name()] += " by row";
    }
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
      add(name, absl::StrCat("'", name, "' (", shape, ") is not in it"));
    } else if (there->second != shape) {
      add(name, absl::StrCat("'", name, "' has the shape ", there->second,
                             " there and ", shape, " here"));
    }
  }
  for (const auto& [name, shape] : saved) {
    if (wanted.count(name) != 0) continue;
    add(name,
        absl::StrCat("'", name, "' (", shape, ") is not one of the job's"));
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
