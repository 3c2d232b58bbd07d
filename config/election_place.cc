#include "config/election_place.h"

#include <set>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace paramd {
namespace {

constexpr size_t kMostEndpoints = 16;
constexpr size_t kMostBytes = 1024;

absl::Status WrongEtcd(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(why,
                   "; give etcd://HOST:PORT[,HOST:PORT]/PREFIX, for example "
                   "etcd://etcd:2379/jobs/mnist"));
}

absl::Status WrongLease(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      why,
      "; give kubernetes://[NAMESPACE/]LEASE, for example "
      "kubernetes://research/mnist, or kubernetes://mnist in the pod's own "
      "namespace"));
}

bool IsEndpoint(absl::string_view text) {
  const size_t colon = text.rfind(':');
  uint32_t port;
  return colon != absl::string_view::npos && colon > 0 &&
         absl::SimpleAtoi(text.substr(colon + 1), &port) && port > 0 &&
         port < 65536;
}

bool IsPlain(absl::string_view text) {
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '@' || c == '?' || c == '#') return false;
  }
  return true;
}

// Of Kubernetes: lower case, digits, - and, in names of objects, dots.
bool IsName(absl::string_view text, size_t most, bool with_dots) {
  if (text.empty() || text.size() > most) return false;
  for (const char c : text) {
    const bool is_plain = absl::ascii_islower(c) || absl::ascii_isdigit(c);
    if (!is_plain && c != '-' && !(with_dots && c == '.')) return false;
  }
  return absl::ascii_isalnum(text.front()) && absl::ascii_isalnum(text.back());
}

// What follows "etcd://".
absl::StatusOr<ElectionPlace> ParseEtcd(absl::string_view text) {
  const size_t slash = text.find('/');
  EtcdPlace place;
  place.prefix = slash == absl::string_view::npos
                     ? ""
                     : std::string(absl::StripSuffix(text.substr(slash), "/"));
  if (place.prefix.empty()) {
    return WrongEtcd("has no prefix, which keeps the jobs of one etcd apart");
  }
  std::set<absl::string_view> seen;
  for (const absl::string_view endpoint :
       absl::StrSplit(text.substr(0, slash), ',')) {
    if (!IsEndpoint(endpoint)) {
      return WrongEtcd(absl::StrCat("'", endpoint,
                                    "' is not HOST:PORT with a port from 1 to "
                                    "65535"));
    }
    if (!seen.insert(endpoint).second) {
      return WrongEtcd(absl::StrCat("'", endpoint, "' is there twice"));
    }
    place.endpoints.emplace_back(endpoint);
  }
  if (place.endpoints.size() > kMostEndpoints) {
    return WrongEtcd("has more than 16 addresses");
  }
  return place;
}

// What follows "kubernetes://".
absl::StatusOr<ElectionPlace> ParseLease(absl::string_view text) {
  LeasePlace place;
  const size_t slash = text.find('/');
  if (slash != absl::string_view::npos) {
    place.name_space = std::string(text.substr(0, slash));
    if (!IsName(place.name_space, 63, /*with_dots=*/false)) {
      return WrongLease(absl::StrCat(
          "'", place.name_space,
          "' is not a namespace: lower-case letters, digits and '-'"));
    }
    text = text.substr(slash + 1);
  }
  if (!IsName(text, 253, /*with_dots=*/true)) {
    return WrongLease(absl::StrCat(
        "'", text,
        "' is not the name of a Lease: lower-case letters, digits, '-' and "
        "'.'"));
  }
  place.name = std::string(text);
  return place;
}

}  // namespace

std::string EtcdPlace::ToString() const {
  return absl::StrCat("etcd://", absl::StrJoin(endpoints, ","), prefix);
}

std::string LeasePlace::ToString() const {
  return absl::StrCat("kubernetes://", name_space,
                      name_space.empty() ? "" : "/", name);
}

absl::StatusOr<ElectionPlace> ParseElectionPlace(absl::string_view text) {
  const bool is_lease = absl::StartsWith(text, "kubernetes:");
  const auto wrong = is_lease ? WrongLease : WrongEtcd;
  if (text.size() > kMostBytes) return wrong("has more than 1024 characters");
  if (!IsPlain(text)) return wrong("has blanks or one of the characters @ ? #");
  if (absl::ConsumePrefix(&text, "etcd://")) return ParseEtcd(text);
  if (absl::ConsumePrefix(&text, "kubernetes://")) return ParseLease(text);
  return wrong(is_lease ? "does not begin with kubernetes://"
                        : "does not begin with etcd:// or kubernetes://");
}

}  // namespace paramd
