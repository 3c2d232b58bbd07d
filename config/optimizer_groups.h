#ifndef PARAMD_CONFIG_OPTIMIZER_GROUPS_H_
#define PARAMD_CONFIG_OPTIMIZER_GROUPS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

#include "proto/paramd/v1/optimizer.pb.h"

namespace paramd {

// Of optimizer.groups, the number of the first one that names this variable.
// Nothing: none does.
absl::optional<int> GroupOf(const v1::OptimizerConfig& config,
                            absl::string_view variable);

// What a group says that makes no sense, if it does.
struct GroupMistake {
  std::string key;  // "beta1".
  std::string sentence;
};
// Makes `config` that of group `number`, which is left without groups. Nothing:
// it is. REQUIRES: there is such a group.
absl::optional<GroupMistake> UseGroup(int number, v1::OptimizerConfig* config);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_GROUPS_H_
