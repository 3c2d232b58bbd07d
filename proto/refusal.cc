#include "proto/refusal.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace paramd {

const char kRefusalUrl[] = "type.googleapis.com/paramd.v1.Refusal";

namespace {

constexpr char kEndedUrl[] = "paramd/ended";

absl::StatusCode CodeOf(v1::Refusal::Reason reason) {
  switch (reason) {
    case v1::Refusal::NOT_READY:
    case v1::Refusal::WAIT:
    case v1::Refusal::RETRY:
      return absl::StatusCode::kUnavailable;
    case v1::Refusal::OVER_LIMIT:
      return absl::StatusCode::kResourceExhausted;
    case v1::Refusal::QUARANTINED:
    case v1::Refusal::INVALID:
      return absl::StatusCode::kInvalidArgument;
    case v1::Refusal::NOT_ALLOWED:
      return absl::StatusCode::kPermissionDenied;
    case v1::Refusal::TASK_TAKEN:
      return absl::StatusCode::kAlreadyExists;
    case v1::Refusal::DAMAGED:
      return absl::StatusCode::kDataLoss;
    default:
      return absl::StatusCode::kFailedPrecondition;
  }
}

}  // namespace

absl::Status Refuse(const v1::Refusal& refusal, absl::string_view sentence) {
  absl::Status status(CodeOf(refusal.reason()), sentence);
  status.SetPayload(kRefusalUrl, absl::Cord(refusal.SerializeAsString()));
  return status;
}

absl::Status Refuse(v1::Refusal::Reason reason, absl::string_view entity,
                    absl::string_view sentence) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_entity(std::string(entity));
  return Refuse(refusal, sentence);
}

absl::Status Invalid(absl::string_view entity, absl::string_view sentence) {
  return Refuse(v1::Refusal::INVALID, entity, sentence);
}

absl::Status RefuseForNow(v1::Refusal::Reason reason,
                          absl::string_view waiting_for,
                          absl::Duration retry_after,
                          absl::string_view sentence) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_waiting_for(std::string(waiting_for));
  refusal.set_retry_after_ms(
      static_cast<uint32_t>(absl::ToInt64Milliseconds(retry_after)));
  return Refuse(refusal, sentence);
}

void MarkEnded(absl::Status* status) {
  status->SetPayload(kEndedUrl, absl::Cord());
}

bool HasEnded(const absl::Status& status) {
  return status.GetPayload(kEndedUrl).has_value();
}

v1::Refusal RefusalOf(const absl::Status& status) {
  v1::Refusal refusal;
  const auto details = status.GetPayload(kRefusalUrl);
  if (details.has_value() && !refusal.ParseFromString(std::string(*details))) {
    refusal.Clear();
  }
  return refusal;
}

}  // namespace paramd
