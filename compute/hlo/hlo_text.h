#ifndef PARAMD_COMPUTE_HLO_HLO_TEXT_H_
#define PARAMD_COMPUTE_HLO_HLO_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

// Pieces of attributes, as MLIR writes them.
namespace paramd::hlo {

// "array<i64: 1, 2>".
template <class Numbers>
std::string ArrayText(const Numbers& numbers) {
  return numbers.empty()
             ? "array<i64>"
             : absl::StrCat("array<i64: ", absl::StrJoin(numbers, ", "), ">");
}

// A function of two float32, as an operation between elements has it.
inline std::string ScalarRegion(const std::string& name) {
  return absl::StrCat(
      "{\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n      %c = \"stablehlo.",
      name,
      "\"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>\n"
      "      \"stablehlo.return\"(%c) : (tensor<f32>) -> ()\n    }");
}

}  // namespace paramd::hlo

#endif  // PARAMD_COMPUTE_HLO_HLO_TEXT_H_
