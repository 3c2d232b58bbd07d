#ifndef PARAMD_WORKER_CORE_OPERATION_KIND_H_
#define PARAMD_WORKER_CORE_OPERATION_KIND_H_

#include <cstdint>

#include "client/core/session.h"

namespace paramd {

// What a worker does with its session: an operation's id says what and which.
enum OperationKind : uint64_t {
  kLookup = 0,
  kPull = 1,
  kPush = 2,
  kEvaluationPull = 3,
  kEvaluationLookup = 4,
};

inline Session::OpId MakeOp(OperationKind kind, uint64_t number) {
  return number * 8 + kind;
}
inline OperationKind KindOf(Session::OpId op) {
  return static_cast<OperationKind>(op % 8);
}

}  // namespace paramd

#endif  // PARAMD_WORKER_CORE_OPERATION_KIND_H_
