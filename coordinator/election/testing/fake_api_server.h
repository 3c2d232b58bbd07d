#ifndef PARAMD_COORDINATOR_ELECTION_TESTING_FAKE_API_SERVER_H_
#define PARAMD_COORDINATOR_ELECTION_TESTING_FAKE_API_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

#include "base/mutex.h"
#include "coordinator/election/api_calls.h"

namespace paramd {

// What an API server of Kubernetes does with objects, in memory: makes, gives
// and replaces them, each write with a new resourceVersion, and only over the
// version that it names.
//
// Thread-safe. Outlives its connections.
class FakeApiServer {
 public:
  std::unique_ptr<ApiCalls> Connect();

  // Answers nobody until Return.
  void GoAway();
  void Return();
  // Answers to that many writes are lost; what they do is done.
  void LoseAnswers(int writes);
  // Whether that verb ("PUT") is forbidden.
  void Forbid(const std::string& verb, bool forbidden);

  // Null: there is none.
  nlohmann::json Get(const std::string& path) const;
  // Writes it as somebody else, over whatever is there.
  void Put(const std::string& path, nlohmann::json object);
  void Delete(const std::string& path);

 private:
  class Connection;

  absl::StatusOr<ApiCalls::Answer> Call(absl::string_view verb,
                                        const std::string& path,
                                        const std::string& body);
  ApiCalls::Answer WriteLocked(absl::string_view verb, const std::string& path,
                               const std::string& body)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StoreLocked(const std::string& path, nlohmann::json object)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  bool is_away_ ABSL_GUARDED_BY(mutex_) = false;
  int answers_to_lose_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t version_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<std::string> forbidden_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, nlohmann::json> objects_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_TESTING_FAKE_API_SERVER_H_
