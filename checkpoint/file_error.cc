#include "checkpoint/file_error.h"

#include <string>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace paramd {

absl::Status FileError(int error, absl::string_view what,
                       absl::string_view path) {
  std::string reason = std::generic_category().message(error);
  if (!reason.empty()) reason[0] = absl::ascii_tolower(reason[0]);
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat("cannot ", what, " '", path, "': ", reason));
}

}  // namespace paramd
