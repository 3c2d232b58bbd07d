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
// Makes `config` that of group `number`, which is left without groups: of the
// kind that the group names, if it does, with the group's constants. Nothing:
// it is. REQUIRES: there is such a group.
absl::optional<GroupMistake> UseGroup(int number, v1::OptimizerConfig* config);

// The kind of optimizer that trains this variable, with its constants, and no
// more than those.
v1::OptimizerConfig KindOf(const v1::OptimizerConfig& config,
                           absl::string_view variable);

// Whether some variables are, or may be, trained by lamb, which takes norms of
// whole blocks.
bool UsesLamb(const v1::OptimizerConfig& config);

}  // namespace paramd

#endif  // PARAMD_CONFIG_OPTIMIZER_GROUPS_H_
