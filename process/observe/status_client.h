#ifndef PARAMD_PROCESS_OBSERVE_STATUS_CLIENT_H_
#define PARAMD_PROCESS_OBSERVE_STATUS_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "net/tls.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Asks processes for their status, all at once. Keeps its connections from one
// question to the next. Not thread-safe.
class StatusClient {
 public:
  // Whether a question to a process that can't be reached now fails at once or
  // goes on trying until the deadline.
  enum class Patience { kFailAtOnce, kKeepTrying };

  // `addresses` are "host:port".
  // With `tls`, unless null, they have to prove that they are of its job.
  explicit StatusClient(const std::vector<std::string>& addresses,
                        std::shared_ptr<const Tls> tls = nullptr);
  ~StatusClient();
  StatusClient(const StatusClient&) = delete;
  StatusClient& operator=(const StatusClient&) = delete;

  // Blocks until each has answered, failed, or `deadline` has passed for it. In
  // the order of the addresses; UNAVAILABLE with the reason in a few words for
  // one that did not answer as a process of paramd does. Texts in the answers
  // have nothing that a terminal would obey (EscapeControls).
  std::vector<absl::StatusOr<v1::StatusReply>> Ask(absl::Duration deadline,
                                                   Patience patience);

 private:
  struct Stub;
  const std::shared_ptr<const Tls> tls_;
  std::vector<std::unique_ptr<Stub>> stubs_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_STATUS_CLIENT_H_
