#include "coordinator/election/lease_record.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

using LeaseJson = nlohmann::json;

constexpr int64_t kMostSeconds = int64_t{7} * 24 * 3600;

// The member of an object; null if there is none.
const LeaseJson& At(const LeaseJson& object, const char* name) {
  static const LeaseJson* const none = new LeaseJson();
  if (!object.is_object()) return *none;
  const auto member = object.find(name);
  return member == object.end() ? *none : *member;
}

std::string TextAt(const LeaseJson& object, const char* name) {
  const LeaseJson& member = At(object, name);
  return member.is_string() ? member.get<std::string>() : "";
}

int64_t NumberAt(const LeaseJson& object, const char* name) {
  const LeaseJson& member = At(object, name);
  return member.is_number_integer() ? member.get<int64_t>() : 0;
}

std::string HolderOf(const LeaseJson& lease) {
  return TextAt(At(lease, "spec"), "holderIdentity");
}

uint64_t TokenOf(const LeaseJson& lease) {
  const int64_t transitions = NumberAt(At(lease, "spec"), "leaseTransitions");
  return static_cast<uint64_t>(std::max<int64_t>(0, transitions)) + 1;
}

// How long its holder has it after each renewal. Without one it is released.
absl::Duration DurationOf(const LeaseJson& lease) {
  const int64_t seconds = NumberAt(At(lease, "spec"), "leaseDurationSeconds");
  return absl::Seconds(std::clamp<int64_t>(seconds, 1, kMostSeconds));
}

// MicroTime, for people: nobody compares it with a clock.
std::string Timestamp() {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::Now(),
                          absl::UTCTimeZone());
}

}  // namespace

LeaseRecord::LeaseRecord(const LeasePlace& place, std::unique_ptr<ApiCalls> api,
                         absl::Duration look_again, std::function<Time()> now)
    : place_(place),
      collection_(absl::StrCat("/apis/coordination.k8s.io/v1/namespaces/",
                               place.name_space, "/leases")),
      api_(std::move(api)),
      look_again_(look_again),
      now_(std::move(now)) {}

absl::Status LeaseRecord::RefusedLocked(const std::string& verb,
                                        const ApiCalls::Answer& answer) {
  const Json body =
      Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  const std::string said = TextAt(body, "message").substr(0, 300);
  if (answer.code != 403) {
    return absl::UnavailableError(absl::StrCat(api_->name(), ": it says ",
                                               answer.code,
                                               said.empty() ? "" : ": ", said));
  }
  const Time first = refused_.emplace(verb, now_()).first->second;
  const std::string sentence = absl::StrCat(
      api_->name(), " does not let this pod ", verb, " the Lease ", place_.name,
      " of namespace ", place_.name_space,
      ": bind its service account to a Role with the verbs get, create and "
      "update on leases of coordination.k8s.io",
      said.empty() ? "" : "; it says: ", said);
  if (now_() - first < kRightsSettle) return absl::UnavailableError(sentence);
  return absl::InvalidArgumentError(absl::StrCat("chief_election: ", sentence));
}

absl::StatusOr<LeaseRecord::Json> LeaseRecord::GetLocked() {
  ASSIGN_OR_RETURN(
      const ApiCalls::Answer answer,
      api_->Call("GET", absl::StrCat(collection_, "/", place_.name), ""));
  if (answer.code == 404) return Json();
  if (answer.code != 200) return RefusedLocked("get", answer);
  refused_.erase("get");
  Json lease = Json::parse(answer.body, nullptr, /*allow_exceptions=*/false);
  if (!At(lease, "spec").is_object() || !At(lease, "metadata").is_object()) {
    return absl::UnavailableError(
        absl::StrCat(api_->name(), ": its answer is not a Lease"));
  }
  return lease;
}

absl::StatusOr<bool> LeaseRecord::WriteLocked(const Json& lease) {
  const bool is_new = !At(lease, "metadata").contains("resourceVersion");
  const std::string path =
      is_new ? collection_ : absl::StrCat(collection_, "/", place_.name);
  ASSIGN_OR_RETURN(const ApiCalls::Answer answer,
                   api_->Call(is_new ? "POST" : "PUT", path, lease.dump()));
  // 404: deleted meanwhile, or there is no such namespace.
  if (answer.code == 409 || (answer.code == 404 && !is_new)) return false;
  const std::string verb = is_new ? "create" : "update";
  if (answer.code != 200 && answer.code != 201) {
    return RefusedLocked(verb, answer);
  }
  refused_.erase(verb);
  return true;
}

void LeaseRecord::ObserveLocked(const Json& lease, Time asked) {
  std::string record = At(lease, "spec").dump();
  if (record != record_) {
    // The first one that is seen may have been there for long.
    has_changed_ = record_.has_value();
    record_ = std::move(record);
    unchanged_ = absl::ZeroDuration();
  } else if (looked_.has_value()) {
    unchanged_ += asked - *looked_;
  }
  looked_ = now_();
}

bool LeaseRecord::IsMineLocked(const Json& lease) const {
  return !lease.is_null() && !self_.empty() && HolderOf(lease) == self_ &&
         TokenOf(lease) == token_;
}

absl::StatusOr<absl::optional<ChiefRecord::Holder>> LeaseRecord::Look() {
  const MutexLock lock(&mutex_);
  const Time asked = now_();
  auto lease = GetLocked();
  if (!lease.ok()) {
    looked_.reset();
    return lease.status();
  }
  ObserveLocked(*lease, asked);
  found_ = *std::move(lease);
  Holder holder;
  holder.text = HolderOf(found_);
  expired_ = unchanged_ >= DurationOf(found_);
  if (holder.text.empty()) return absl::optional<Holder>();
  holder.token = TokenOf(found_);
  holder.is_self = holder.text == self_;  // The answer to Take was lost.
  if (holder.is_self) token_ = holder.token;
  holder.is_alive = has_changed_;
  if (expired_ && !holder.is_self) return absl::optional<Holder>();
  return absl::make_optional(std::move(holder));
}

absl::Status LeaseRecord::WaitForChange(absl::Duration most) {
  const Time until = MonotonicNow() + std::min(most, look_again_);
  MutexLock lock(&waiting_);
  while (!cancelled_ && MonotonicNow() < until) {
    cancelled_now_.WaitFor(&waiting_, until - MonotonicNow());
  }
  return absl::OkStatus();
}

void LeaseRecord::Cancel() {
  {
    const MutexLock lock(&waiting_);
    cancelled_ = true;
  }
  cancelled_now_.NotifyAll();
}

absl::StatusOr<uint64_t> LeaseRecord::Take(const std::string& text,
                                           absl::Duration ttl) {
  const MutexLock lock(&mutex_);
  self_ = text;
  if (!HolderOf(found_).empty() && !expired_) return 0;
  Json lease = found_;
  int64_t transitions = 0;
  if (lease.is_null()) {
    lease = {{"apiVersion", "coordination.k8s.io/v1"},
             {"kind", "Lease"},
             {"metadata",
              {{"name", place_.name}, {"namespace", place_.name_space}}}};
  } else {
    transitions = static_cast<int64_t>(TokenOf(lease));
  }
  const std::string now = Timestamp();
  Json& spec = lease["spec"];
  spec["holderIdentity"] = text;
  spec["leaseDurationSeconds"] = std::clamp<int64_t>(
      absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1))), 1, kMostSeconds);
  spec["acquireTime"] = now;
  spec["renewTime"] = now;
  spec["leaseTransitions"] = transitions;
  const uint64_t token = TokenOf(lease);
  ASSIGN_OR_RETURN(const bool is_taken, WriteLocked(lease));
  if (!is_taken) return 0;
  token_ = token;
  return token;
}

absl::StatusOr<bool> LeaseRecord::Renew() {
  const MutexLock lock(&mutex_);
  ASSIGN_OR_RETURN(Json lease, GetLocked());
  if (!IsMineLocked(lease)) return false;
  lease["spec"]["renewTime"] = Timestamp();
  ASSIGN_OR_RETURN(const bool is_written, WriteLocked(lease));
  if (is_written) return true;
  return absl::UnavailableError(absl::StrCat(
      api_->name(), ": somebody else changed the Lease at the same moment"));
}

absl::Status LeaseRecord::Release() {
  const MutexLock lock(&mutex_);
  if (token_ == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(Json lease, GetLocked());
  if (!IsMineLocked(lease)) return absl::OkStatus();
  lease["spec"]["holderIdentity"] = "";
  return WriteLocked(lease).status();
}

absl::Status LeaseRecord::Remove() {
  const MutexLock lock(&mutex_);
  if (found_.is_null()) return absl::OkStatus();
  Json lease = found_;
  lease["spec"]["holderIdentity"] = "";
  return WriteLocked(lease).status();
}

absl::Duration LeaseRecord::longest_renewal() const {
  return 2 * api_->patience();
}

std::string LeaseRecord::NotOurs() const {
  return absl::StrCat("the Lease ", place_.name, " of namespace ",
                      place_.name_space,
                      " is not one of paramd's: choose another name");
}

}  // namespace paramd
