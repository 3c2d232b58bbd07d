#ifndef PARAMD_CONFIG_NEAREST_NAME_H_
#define PARAMD_CONFIG_NEAREST_NAME_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paramd {

// The one of `known` that `word` is most likely a misspelling of: the least
// edit distance (a swap of neighbours counts one), if that is at most a third
// of the word's length and not below two. Empty if none is near enough.
std::string NearestName(absl::string_view word,
                        const std::vector<std::string>& known);

// "; did you mean 'x'?" if one is near, else "; known here: a, b, c".
std::string NearestNameHint(absl::string_view word,
                            const std::vector<std::string>& known);

}  // namespace paramd

#endif  // PARAMD_CONFIG_NEAREST_NAME_H_
