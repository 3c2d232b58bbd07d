#ifndef PARAMD_PROTO_REFUSAL_H_
#define PARAMD_PROTO_REFUSAL_H_

#include <cstdint>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// An error status that carries `refusal` in its details. The code follows from
// the reason (WRONG_OWNER, FENCED, OLD_TERM … are FAILED_PRECONDITION,
// NOT_READY and RETRY are UNAVAILABLE, OVER_LIMIT is RESOURCE_EXHAUSTED,
// INVALID and QUARANTINED are INVALID_ARGUMENT, NOT_ALLOWED is
// PERMISSION_DENIED, DAMAGED is DATA_LOSS).
absl::Status Refuse(const v1::Refusal& refusal, absl::string_view sentence);

// The same with nothing but a reason and the entity it is about.
absl::Status Refuse(v1::Refusal::Reason reason, absl::string_view entity,
                    absl::string_view sentence);

// Of a request that is wrong, and would be the next time too.
absl::Status Invalid(absl::string_view entity, absl::string_view sentence);

// NOT_READY, WAIT or RETRY: again after `retry_after`, naming who is waited
// for.
absl::Status RefuseForNow(v1::Refusal::Reason reason,
                          absl::string_view waiting_for,
                          absl::Duration retry_after,
                          absl::string_view sentence);

// The details of a status; REASON_UNSPECIFIED if it carries none.
v1::Refusal RefusalOf(const absl::Status& status);

// Of a call that failed because the process that was called has ended, which is
// known for certain: nobody listens where it did, or another process does.
void MarkEnded(absl::Status* status);
bool HasEnded(const absl::Status& status);

// Key under which the details lie in an absl::Status.
extern const char kRefusalUrl[];

// One of the numbers that a coordinator gives (types.proto): a SessionId, a
// ServerLife and so on. Those of one type are ordered by (term, counter); those
// of two don't compare.
template <class T>
concept Numbered = std::is_base_of_v<google::protobuf::Message, T> &&
    requires(T t) {
  t.set_term(uint64_t{});
  t.set_counter(uint64_t{});
};

template <Numbered T>
T MakeNumber(uint64_t term, uint64_t counter) {
  T number;
  number.set_term(term);
  number.set_counter(counter);
  return number;
}
// Of a thing that is known by what it is there: of a task of either type, for
// people.
template <Numbered T>
v1::Version Unnamed(const T& number) {
  return MakeNumber<v1::Version>(number.term(), number.counter());
}

template <Numbered T>
bool operator<(const T& a, const T& b) {
  return a.term() != b.term() ? a.term() < b.term() : a.counter() < b.counter();
}
template <Numbered T>
bool operator>(const T& a, const T& b) {
  return b < a;
}
template <Numbered T>
bool operator==(const T& a, const T& b) {
  return a.term() == b.term() && a.counter() == b.counter();
}
template <Numbered T>
bool operator!=(const T& a, const T& b) {
  return !(a == b);
}
// Sessions, servers' lives and contributors are counted together.
template <Numbered A, Numbered B>
bool GivenBefore(const A& a, const B& b) {
  return Unnamed(a) < Unnamed(b);
}
template <Numbered T>
bool IsZero(const T& v) {
  return v.term() == 0 && v.counter() == 0;
}
// "2.17"
template <Numbered T>
std::string VersionName(const T& v) {
  return absl::StrCat(v.term(), ".", v.counter());
}

}  // namespace paramd

// Argument-dependent look-up finds the comparisons from any namespace.
namespace paramd::v1 {
using paramd::operator<;
using paramd::operator>;
using paramd::operator==;
using paramd::operator!=;
}  // namespace paramd::v1

#endif  // PARAMD_PROTO_REFUSAL_H_
