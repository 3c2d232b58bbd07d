#ifndef PARAMD_CHECKPOINT_FILE_ERROR_H_
#define PARAMD_CHECKPOINT_FILE_ERROR_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace paramd {

// "cannot <what> '<path>': no space left on device", with the code that belongs
// to the errno value `error`.
absl::Status FileError(int error, absl::string_view what,
                       absl::string_view path);

}  // namespace paramd

#endif  // PARAMD_CHECKPOINT_FILE_ERROR_H_
