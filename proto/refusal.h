#ifndef PARAMD_PROTO_REFUSAL_H_
#define PARAMD_PROTO_REFUSAL_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// An error status that carries `refusal` in its details. The code follows from
// the reason (WRONG_OWNER, FENCED, OLD_TERM … are FAILED_PRECONDITION, NOT_READY
// and RETRY are UNAVAILABLE, OVER_LIMIT is RESOURCE_EXHAUSTED, INVALID and
// QUARANTINED are INVALID_ARGUMENT, NOT_ALLOWED is PERMISSION_DENIED, DAMAGED is
// DATA_LOSS).
absl::Status Refuse(const v1::Refusal& refusal, absl::string_view sentence);

// The same with nothing but a reason and the entity it is about.
absl::Status Refuse(v1::Refusal::Reason reason, absl::string_view entity,
                    absl::string_view sentence);

// NOT_READY, WAIT or RETRY: again after `retry_after`, naming who is waited for.
absl::Status RefuseForNow(v1::Refusal::Reason reason,
                          absl::string_view waiting_for,
                          absl::Duration retry_after,
                          absl::string_view sentence);

// The details of a status; REASON_UNSPECIFIED if it carries none.
v1::Refusal RefusalOf(const absl::Status& status);

// Key under which the details lie in an absl::Status.
extern const char kRefusalUrl[];

// Order of (term, counter).
inline bool operator<(const v1::Version& a, const v1::Version& b) {
  return a.term() != b.term() ? a.term() < b.term() : a.counter() < b.counter();
}
inline bool operator>(const v1::Version& a, const v1::Version& b) {
  return b < a;
}
inline bool operator==(const v1::Version& a, const v1::Version& b) {
  return a.term() == b.term() && a.counter() == b.counter();
}
inline bool operator!=(const v1::Version& a, const v1::Version& b) {
  return !(a == b);
}
inline bool IsZero(const v1::Version& v) {
  return v.term() == 0 && v.counter() == 0;
}
// "2.17"
std::string VersionName(const v1::Version& version);

}  // namespace paramd

// Argument-dependent look-up finds the comparisons from any namespace.
namespace paramd::v1 {
using paramd::operator<;
using paramd::operator>;
using paramd::operator==;
using paramd::operator!=;
}  // namespace paramd::v1

#endif  // PARAMD_PROTO_REFUSAL_H_
