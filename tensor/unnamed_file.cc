#include "tensor/unnamed_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace paramd {

int OpenUnnamedFile(const std::string& directory) {
  const int file =
      open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || errno != EOPNOTSUPP) return file;
  std::string name = absl::StrCat(directory, "/.paramd-XXXXXX");
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace paramd
