#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace paramd {

void CheckFailed(const char* file, int line, const char* condition,
                 absl::string_view sentence) {
  std::fprintf(stderr, "%s:%d: broken invariant: %.*s (%s)\n", file, line,
               static_cast<int>(sentence.size()), sentence.data(), condition);
  std::fflush(stderr);
  std::abort();
}

}  // namespace paramd
