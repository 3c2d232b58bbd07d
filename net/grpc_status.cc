#include "net/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"

#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr size_t kMostMessageBytes = 2048;
constexpr size_t kMostDetailBytes = 4096;

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  std::string details;
  if (const auto payload = status.GetPayload(kRefusalUrl);
      payload.has_value() && payload->size() <= kMostDetailBytes) {
    details = std::string(*payload);
  }
  return grpc::Status(
      static_cast<grpc::StatusCode>(status.code()),
      std::string(status.message().substr(0, kMostMessageBytes)), details);
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const int code = status.error_code();
  absl::Status result(code > 0 && code <= grpc::StatusCode::UNAUTHENTICATED
                          ? static_cast<absl::StatusCode>(code)
                          : absl::StatusCode::kUnknown,
                      status.error_message());
  const std::string& details = status.error_details();
  v1::Refusal refusal;
  if (!details.empty() && details.size() <= kMostDetailBytes &&
      refusal.ParseFromString(details)) {
    result.SetPayload(kRefusalUrl, absl::Cord(details));
  } else if (absl::IsCancelled(result)) {
    return absl::UnavailableError("the peer is ending");
  }
  return result;
}

}  // namespace paramd
