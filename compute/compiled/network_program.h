#ifndef PARAMD_COMPUTE_COMPILED_NETWORK_PROGRAM_H_
#define PARAMD_COMPUTE_COMPILED_NETWORK_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "compute/hlo/hlo_graph.h"
#include "compute/model/network_plan.h"

namespace paramd {

// What shapes of a program follow from.
struct ProgramShape {
  uint64_t examples = 0;
  // Of each sparse variable, of which some rows are handed in; 0: whole ones
  // are.
  uint64_t rows = 0;
  // A step of training; else what the model is used for.
  bool training = false;

  bool operator==(const ProgramShape&) const = default;
};

// What a network computes for batches of one size, as StableHLO.
struct NetworkProgram {
  std::string text;
  // Of each variable its values, then the inputs, as InputOf gives them; in
  // training then of each task the label and, if they have some, the examples'
  // weights (f32 each), the scale of the gradient (f32), the batch's share
  // of the step (f32), the examples' offsets (u64 each), and the keys of draws
  // (u64 each).
  std::vector<HloType> parameters;
  // The outputs; in training then the gradients, the last variable's first.
  std::vector<HloType> results;
  std::vector<std::string> draws;  // The layers that draw.
};

// `operands`: of products and convolutions. INVALID_ARGUMENT, as EmitLayer, if
// a layer has no form in a program.
absl::StatusOr<NetworkProgram> WriteProgram(
    const NetworkPlan& plan, const ProgramShape& shape,
    HloElement operands = HloElement::kF32);

}  // namespace paramd

#endif  // PARAMD_COMPUTE_COMPILED_NETWORK_PROGRAM_H_
