#ifndef PARAMD_BASE_LOG_LEVEL_H_
#define PARAMD_BASE_LOG_LEVEL_H_

#include "base/log_field.h"

namespace paramd {

// From now on what is below `lowest` is not logged. Thread-safe.
void SetLogLevel(LogLevel lowest);

}  // namespace paramd

#endif  // PARAMD_BASE_LOG_LEVEL_H_
