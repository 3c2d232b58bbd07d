#include "cli/commands/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace paramd {
namespace {

absl::Status CannotWrite(absl::string_view flag, const std::string& path,
                         int error) {
  return absl::InvalidArgumentError(
      absl::StrCat(flag, ": '", path, "': ", std::strerror(error)));
}

}  // namespace

absl::Status WriteOutputFile(absl::string_view flag, const std::string& path,
                             absl::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return CannotWrite(flag, path, errno);
}

absl::StatusOr<OutputPlace> OutputPlace::Claim(absl::string_view flag,
                                               const std::string& path) {
  std::error_code error;
  const bool is_new = !std::filesystem::exists(path, error);
  std::ofstream file(path, std::ios::binary | std::ios::app);
  if (!file) return CannotWrite(flag, path, errno);
  return OutputPlace(path, is_new);
}

void OutputPlace::GiveUp() const {
  std::error_code error;
  if (is_new_) std::filesystem::remove(path_, error);
}

}  // namespace paramd
