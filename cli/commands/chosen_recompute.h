#ifndef PARAMD_CLI_COMMANDS_CHOSEN_RECOMPUTE_H_
#define PARAMD_CLI_COMMANDS_CHOSEN_RECOMPUTE_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"

#include "compute/model/trained_model.h"

namespace paramd {

// 1234567 → "1,234,567".
std::string Grouped(uint64_t number);

// What memory.activation_budget_bytes has come to, a line for each stage; empty
// without one.
std::string DescribeChosen(absl::Span<const ChosenRecompute> stages);

}  // namespace paramd

#endif  // PARAMD_CLI_COMMANDS_CHOSEN_RECOMPUTE_H_
