#ifndef PARAMD_INPUT_FUZZ_READ_SOURCE_H_
#define PARAMD_INPUT_FUZZ_READ_SOURCE_H_

#include "absl/strings/string_view.h"

#include "input/sources.h"

namespace paramd::fuzz {

// One file with this content, until the next call.
InputFiles OneFile(absl::string_view content);
// Its path, for what opens one.
const std::string& PathOfOneFile(absl::string_view content);

// Reads each example of a source, as far as kMostRead, and CHECKs that it is as
// its spec says, or that a refusal says why.
inline constexpr uint64_t kMostRead = 50;
void CheckSource(const OpenedSource& source);

}  // namespace paramd::fuzz

#endif  // PARAMD_INPUT_FUZZ_READ_SOURCE_H_
