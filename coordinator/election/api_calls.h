#ifndef PARAMD_COORDINATOR_ELECTION_API_CALLS_H_
#define PARAMD_COORDINATOR_ELECTION_API_CALLS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace paramd {

// Calls of the REST API of Kubernetes, by one that is authorised.
//
// Thread-safe.
class ApiCalls {
 public:
  struct Answer {
    int code = 0;  // HTTP's: 200, 404, 409 ...
    std::string body;
  };

  virtual ~ApiCalls() = default;

  // `verb`: GET, POST or PUT, the latter two with a `body` of JSON. UNAVAILABLE
  // naming the server and why in a few words if it does not answer within
  // `patience`. What it answers, refusals too, is an Answer.
  virtual absl::StatusOr<Answer> Call(absl::string_view verb,
                                      const std::string& path,
                                      const std::string& body) = 0;
  // Of one call.
  virtual absl::Duration patience() const = 0;
  // "the API server at 10.96.0.1:443"
  virtual std::string name() const = 0;
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_API_CALLS_H_
