#include "config/environment.h"

#include <unistd.h>

namespace paramd {

Variables ReadEnvironment() {
  Variables variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == absl::string_view::npos) continue;
    variables.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::string ReadHostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "";
  return name;
}

absl::optional<std::string> FindVariable(const Variables& variables,
                                         absl::string_view name) {
  for (const auto& [key, value] : variables) {
    if (key == name) return value;
  }
  return absl::nullopt;
}

}  // namespace paramd
