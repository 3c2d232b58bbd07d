#ifndef PARAMD_BASE_STATUS_MACROS_H_
#define PARAMD_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define PARAMD_CONCAT_INNER_(a, b) a##b
#define PARAMD_CONCAT_(a, b) PARAMD_CONCAT_INNER_(a, b)

// Returns from the function with the status of `expression` if it is not OK.
#define RETURN_IF_ERROR(expression)                  \
  do {                                               \
    ::absl::Status paramd_status_ = (expression);    \
    if (!paramd_status_.ok()) return paramd_status_; \
  } while (false)

// ASSIGN_OR_RETURN(auto file, Open(path)): the value, or returns the status.
#define ASSIGN_OR_RETURN(left, expression) \
  ASSIGN_OR_RETURN_(PARAMD_CONCAT_(paramd_value_, __LINE__), left, expression)

#define ASSIGN_OR_RETURN_(value, left, expression)   \
  auto value = (expression);                         \
  if (!value.ok()) return std::move(value).status(); \
  left = *std::move(value)

#endif  // PARAMD_BASE_STATUS_MACROS_H_
