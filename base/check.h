#ifndef PARAMD_BASE_CHECK_H_
#define PARAMD_BASE_CHECK_H_

#include "absl/strings/string_view.h"

namespace paramd {

// Prints the sentence with its place and aborts. Behind CHECK only.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              absl::string_view sentence);

}  // namespace paramd

// A broken invariant of our own ends the process: CHECK(open, "file is open").
// Never for what comes from the network, a file or a person: that is a Status.
#define CHECK(condition, sentence)                                     \
  do {                                                                 \
    if (__builtin_expect(!(condition), 0)) {                           \
      ::paramd::CheckFailed(__FILE__, __LINE__, #condition, sentence); \
    }                                                                  \
  } while (false)

#endif  // PARAMD_BASE_CHECK_H_
