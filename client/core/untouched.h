#ifndef PARAMD_CLIENT_CORE_UNTOUCHED_H_
#define PARAMD_CLIENT_CORE_UNTOUCHED_H_

#include "tensor/buffer.h"

namespace paramd {

// Stands in a push for the gradient of a variable that the push leaves as it
// is: its value, and all that an optimizer keeps beside it. A byte, which no
// gradient of numbers has, and which does not travel.
inline Buffer UntouchedGradient() { return Buffer::Allocate(1); }
inline bool IsUntouched(const Buffer& gradient) { return gradient.size() == 1; }

}  // namespace paramd

#endif  // PARAMD_CLIENT_CORE_UNTOUCHED_H_
