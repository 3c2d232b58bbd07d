#include "net/operator_calls.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "base/log.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using ::google::protobuf::DynamicCastToGenerated;
using Proto = ::google::protobuf::Message;

constexpr size_t kLongestAsk = 1024;

// Of a caller without a certificate: what it says, and that nobody vouches for
// it.
std::string ClaimedName(const Caller& caller) {
  const std::string role = absl::AsciiStrToLower(
      absl::StripPrefix(v1::Role_Name(caller.role), "ROLE_"));
  return absl::StrCat(role, " by its own word");
}

// Random, of what is asked until it is done; 0: it has none.
uint64_t NonceOf(const Proto& request) {
  const auto* const field = request.GetDescriptor()->FindFieldByName("nonce");
  return field == nullptr ? 0
                          : request.GetReflection()->GetUInt64(request, field);
}

// Without who asks, which stands beside it, and what that one has got by now.
std::string TextOf(const Proto& request) {
  std::unique_ptr<Proto> copy(request.New());
  copy->CopyFrom(request);
  for (const char* const name : {"origin", "nonce", "have"}) {
    const auto* field = request.GetDescriptor()->FindFieldByName(name);
    if (field != nullptr) copy->GetReflection()->ClearField(copy.get(), field);
  }
  std::string text = copy->ShortDebugString();
  if (text.size() > kLongestAsk) text.resize(kLongestAsk);
  return text;
}

void LogCall(const v1::OperatorCall& call) {
  if (call.refused().empty()) {
    return Log(LogLevel::kInfo, "an operator called",
               {{"call", call.call()},
                {"asks", call.asks()},
                {"operator", call.origin().who()},
                {"at", call.origin().address()}});
  }
  Log(LogLevel::kWarning, "an operator's call was refused",
      {{"call", call.call()},
       {"asks", call.asks()},
       {"operator", call.origin().who()},
       {"at", call.origin().address()},
       {"why", call.refused()}});
}

}  // namespace

bool OperatorCalls::AreFor(const Method& method) {
  return method.callers == std::vector<v1::Role>{v1::ROLE_OPERATOR};
}

v1::Origin OperatorCalls::OriginOf(const Caller& caller,
                                   const std::string& uids) {
  v1::Origin origin;
  const bool is_socket = absl::StartsWith(caller.address, "unix:");
  origin.set_who(!caller.name.empty() ? caller.name
                 : is_socket          ? uids
                                      : ClaimedName(caller));
  origin.set_address(is_socket ? "the Unix socket" : caller.address);
  origin.set_unix_ms(static_cast<uint64_t>(absl::ToUnixMillis(absl::Now())));
  return origin;
}

OperatorCalls::Asked* OperatorCalls::FindAsked(const v1::OperatorCall& call,
                                               const Proto& request) {
  const uint64_t nonce = NonceOf(request);
  const auto* const checkpoint =
      DynamicCastToGenerated<v1::CheckpointRequest>(&request);
  const bool names_checkpoint =
      checkpoint != nullptr && !IsZero(checkpoint->snapshot());
  const auto is_it = [&](const Asked& asked) {
    if (asked.call.call() != call.call() || !asked.call.refused().empty()) {
      return false;
    }
    if (names_checkpoint) return true;
    if (asked.call.asks() != call.asks()) return false;
    if (nonce != 0) return asked.nonce == nonce;
    return asked.refused_for_now &&
           asked.call.origin().who() == call.origin().who();
  };
  const auto found = std::find_if(newest_.rbegin(), newest_.rend(), is_it);
  return found == newest_.rend() ? nullptr : &*found;
}

uint64_t OperatorCalls::Came(const v1::Origin& origin, const Method& method,
                             const Proto& request) {
  v1::OperatorCall call;
  *call.mutable_origin() = origin;
  call.set_call(method.name);
  call.set_asks(TextOf(request));
  const MutexLock lock(&mutex_);
  Asked* const asked = FindAsked(call, request);
  if (asked != nullptr) {
    const bool was_refused = std::exchange(asked->refused_for_now, false);
    return was_refused ? asked->call.number() : 0;
  }
  call.set_number(++number_);
  Add({std::move(call), NonceOf(request)});
  return number_;
}

void OperatorCalls::Refused(uint64_t number, const absl::Status& why) {
  const MutexLock lock(&mutex_);
  const v1::Refusal refusal = RefusalOf(why);
  if (refusal.stopped()) return;  // As was asked.
  const auto found = std::find_if(
      newest_.begin(), newest_.end(),
      [number](const Asked& a) { return a.call.number() == number; });
  if (found == newest_.end()) return;
  found->refused_for_now = refusal.reason() == v1::Refusal::RETRY;
  if (found->refused_for_now) return;
  found->call.set_refused(std::string(why.message()));
  LogCall(found->call);
  if (keep_ != nullptr) keep_(found->call);
}

void OperatorCalls::Attempted(const v1::Origin& origin, const Method& method,
                              const absl::Status& why) {
  const MutexLock lock(&mutex_);
  const uint64_t times = ++attempts_;
  if ((times & (times - 1)) != 0) return;
  v1::OperatorCall call;
  call.set_number(++number_);
  *call.mutable_origin() = origin;
  call.set_call(method.name);
  call.set_refused(absl::StrCat(
      why.message(), times == 1 ? "" : absl::StrCat(" (attempt ", times, ")")));
  Add({std::move(call)});
}

void OperatorCalls::Add(Asked asked) {
  LogCall(asked.call);
  if (keep_ != nullptr) keep_(asked.call);
  newest_.push_back(std::move(asked));
  if (newest_.size() > kMost) newest_.pop_front();
}

void OperatorCalls::FillStatus(v1::StatusReply* status) const {
  const MutexLock lock(&mutex_);
  for (const Asked& asked : newest_) {
    *status->add_operator_calls() = asked.call;
  }
}

void SetOrigin(const v1::Origin& origin, Proto* request) {
  const auto* const field = request->GetDescriptor()->FindFieldByName("origin");
  if (field == nullptr || field->message_type() != v1::Origin::descriptor()) {
    return;
  }
  request->GetReflection()->MutableMessage(request, field)->CopyFrom(origin);
}

}  // namespace paramd
