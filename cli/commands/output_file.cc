#include "cli/commands/output_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace paramd {

absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", path, "': ", std::strerror(errno)));
}

}  // namespace paramd
