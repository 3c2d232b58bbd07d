#include "cli/local/succession.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "process/incarnation.h"

namespace paramd {

std::vector<std::string> Succession::NextOf(const std::string& task) {
  const uint64_t next = DrawIncarnation();
  const uint64_t before = std::exchange(newest_[task], next);
  std::vector<std::string> arguments = {
      absl::StrCat("--incarnation=", IncarnationText(next))};
  if (before != 0) {
    arguments.push_back(absl::StrCat("--replaces=", IncarnationText(before)));
  }
  return arguments;
}

}  // namespace paramd
