#ifndef PARAMD_COORDINATOR_ELECTION_API_SERVER_H_
#define PARAMD_COORDINATOR_ELECTION_API_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "coordinator/election/api_calls.h"

namespace paramd {

// The API server of the cluster that this process is a pod of, reached as every
// pod does: the address is in the environment, the token and the authority of
// its certificate in the files of the pod's service account. Both are read anew
// when they are needed, since Kubernetes replaces them.
//
// Thread-safe: one call at a time, on one connection that is kept.
class ApiServer final : public ApiCalls {
 public:
  struct Options {
    std::string host;  // KUBERNETES_SERVICE_HOST: an address, or a name.
    std::string port;  // KUBERNETES_SERVICE_PORT
    // Has ca.crt, token and namespace.
    std::string directory = "/var/run/secrets/kubernetes.io/serviceaccount";
    absl::Duration patience = absl::Seconds(2);  // Of one call.
  };

  // INVALID_ARGUMENT naming what this process lacks as a pod.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Create(
      const Options& options);
  ~ApiServer() override;

  // That of the service account; INVALID_ARGUMENT if its file can't be read.
  absl::StatusOr<std::string> OwnNamespace() const;

  absl::StatusOr<Answer> Call(absl::string_view verb, const std::string& path,
                              const std::string& body) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Duration patience() const override { return options_.patience; }
  std::string name() const override;

 private:
  explicit ApiServer(const Options& options);

  const Options options_;
  const std::string address_;  // "10.96.0.1:443", "[fd00::1]:443"
  Mutex mutex_;
  void* const curl_;  // A CURL, with its connection; used under mutex_.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_ELECTION_API_SERVER_H_
