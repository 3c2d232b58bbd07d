#ifndef PARAMD_PROCESS_OBSERVE_STATUS_POLLER_H_
#define PARAMD_PROCESS_OBSERVE_STATUS_POLLER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/time.h"
#include "net/tls.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Asks processes for their status, all at once and again after every `period`,
// on a thread of its own, so that nobody who draws waits for anybody who
// answers. An answer is kept until the next one of the same process.
//
// Thread-safe. The destructor gives up what is open and joins the thread.
class StatusPoller {
 public:
  struct Answer {
    absl::optional<v1::StatusReply> newest;  // Nullopt: none ever came.
    Time received;                           // When that came.
    bool answered_last = false;              // To the newest question.
  };

  // `addresses` are "host:port"; at least one.
  // `tls` as of StatusClient.
  StatusPoller(std::vector<std::string> addresses, absl::Duration period,
               std::shared_ptr<const Tls> tls = nullptr);
  ~StatusPoller();
  StatusPoller(const StatusPoller&) = delete;
  StatusPoller& operator=(const StatusPoller&) = delete;

  // In the order of the addresses.
  std::vector<Answer> Newest() const;

 private:
  void Loop();

  const std::vector<std::string> addresses_;
  const absl::Duration period_;
  const std::shared_ptr<const Tls> tls_;  // May be null.
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Answer> answers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_STATUS_POLLER_H_
