#ifndef PARAMD_INPUT_TEST_INPUT_H_
#define PARAMD_INPUT_TEST_INPUT_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

#include "input/example_source.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// What of `test` is opened beside training data whose source has these names,
// so that names mean the same in both, wherever they stand: columns and classes
// that both have are read in the order of training. Where a list of names means
// another thing than that of training it is left as it is.
v1::InputSource ReadByName(v1::InputSource test, const SourceNames& training);

// The features among `unread` that may be left out: no filter for evaluation
// reads them.
std::vector<std::string> LeftOut(const v1::InputConfig& config,
                                 absl::Span<const std::string> unread);

// The same without what reads these features out of files, and in evaluation
// without the maps that change them. Sources whose files have them in any case
// are as before.
v1::InputSource WithoutFeatures(v1::InputSource source,
                                absl::Span<const std::string> names);
v1::InputConfig WithoutStagesOf(v1::InputConfig config,
                                absl::Span<const std::string> names);

}  // namespace paramd

#endif  // PARAMD_INPUT_TEST_INPUT_H_
