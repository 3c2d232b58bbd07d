#ifndef PARAMD_CONFIG_ENVIRONMENT_H_
#define PARAMD_CONFIG_ENVIRONMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace paramd {

// Environment variables, name and value; of equal names the first holds.
using Variables = std::vector<std::pair<std::string, std::string>>;

// The variables of this process.
Variables ReadEnvironment();

// The name of this machine; "" if it has none.
std::string ReadHostName();

// Nullopt if the variable is not set.
absl::optional<std::string> FindVariable(const Variables& variables,
                                         absl::string_view name);

}  // namespace paramd

#endif  // PARAMD_CONFIG_ENVIRONMENT_H_
