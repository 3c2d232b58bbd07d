#include "config/election_place.h"

#include <set>

#include "absl/status/status.h"
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

absl::Status Wrong(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(why,
                   "; give etcd://HOST:PORT[,HOST:PORT]/PREFIX, for example "
                   "etcd://etcd:2379/jobs/mnist"));
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

}  // namespace

std::string ElectionPlace::ToString() const {
  return absl::StrCat("etcd://", absl::StrJoin(endpoints, ","), prefix);
}

absl::StatusOr<ElectionPlace> ParseElectionPlace(absl::string_view text) {
  if (text.size() > kMostBytes) return Wrong("has more than 1024 characters");
  if (!IsPlain(text)) {
    return Wrong("has blanks or one of the characters @ ? #");
  }
  if (!absl::ConsumePrefix(&text, "etcd://")) {
    return Wrong("does not begin with etcd://");
  }
  const size_t slash = text.find('/');
  ElectionPlace place;
  place.prefix = slash == absl::string_view::npos
                     ? ""
                     : std::string(absl::StripSuffix(text.substr(slash), "/"));
  if (place.prefix.empty()) {
    return Wrong("has no prefix, which keeps the jobs of one etcd apart");
  }
  std::set<absl::string_view> seen;
  for (const absl::string_view endpoint :
       absl::StrSplit(text.substr(0, slash), ',')) {
    if (!IsEndpoint(endpoint)) {
      return Wrong(absl::StrCat("'", endpoint,
                                "' is not HOST:PORT with a port from 1 to "
                                "65535"));
    }
    if (!seen.insert(endpoint).second) {
      return Wrong(absl::StrCat("'", endpoint, "' is there twice"));
    }
    place.endpoints.emplace_back(endpoint);
  }
  if (place.endpoints.size() > kMostEndpoints) {
    return Wrong("has more than 16 addresses");
  }
  return place;
}

}  // namespace paramd
