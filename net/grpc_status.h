#ifndef PARAMD_NET_GRPC_STATUS_H_
#define PARAMD_NET_GRPC_STATUS_H_

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace paramd {

// The same code and message (cut at 2 KiB: it travels as a header); the Refusal
// in the details, in protobuf's encoding ("grpc-status-details-bin").
grpc::Status ToGrpcStatus(const absl::Status& status);

// The reverse. A code that gRPC does not define is kUnknown; details that are
// no Refusal are dropped. kCancelled without one is kUnavailable: no handler
// says it, gRPC does of calls that a server that ends has left.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace paramd

#endif  // PARAMD_NET_GRPC_STATUS_H_
