#ifndef PARAMD_CONFIG_VARIABLE_REFERENCE_H_
#define PARAMD_CONFIG_VARIABLE_REFERENCE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paramd {

// The first "$(NAME)", "${NAME}", "$NAME" or "%name%" in `text`: a reference
// that a shell, an operator or Kubernetes should have replaced. Empty if there
// is none. Points into `text`.
absl::string_view UnexpandedReference(absl::string_view text);

// What to do about `reference`, found in the variable or flag `source`.
std::string UnexpandedSentence(absl::string_view reference,
                               absl::string_view source);

}  // namespace paramd

#endif  // PARAMD_CONFIG_VARIABLE_REFERENCE_H_
