#ifndef PARAMD_PROCESS_OBSERVE_CLUSTER_WATCH_H_
#define PARAMD_PROCESS_OBSERVE_CLUSTER_WATCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "base/mutex.h"
#include "base/time.h"
#include "net/tls.h"
#include "process/observe/cluster_report.h"
#include "process/observe/status_client.h"
#include "process/observe/status_pages.h"

namespace paramd {

// Knows how the cluster of a process is: asks its members once a second while
// somebody looks, and in the chief every ten seconds else, so that there are
// curves when somebody does.
//
// Thread-safe. The destructor waits for questions that are open, at most two
// seconds for the chief's answer and two for the others', and joins the thread.
class ClusterWatch {
 public:
  struct Options {
    // What this process says; nullopt: nothing yet. Called on the watch's
    // thread.
    std::function<absl::optional<v1::StatusReply>()> own_status;
    std::shared_ptr<const Tls> tls = nullptr;  // As of StatusClient.
    absl::Duration checkpoint_interval = {};   // As of StatusPages.
  };
  explicit ClusterWatch(Options options);
  ~ClusterWatch();
  ClusterWatch(const ClusterWatch&) = delete;
  ClusterWatch& operator=(const ClusterWatch&) = delete;

  // The newest page, with what came after the point `since`; waits up to
  // `patience` for one that is not old. Nullopt: there is none at all.
  absl::optional<v1::StatusPage> Page(uint64_t since, absl::Duration patience);
  // The same as `paramd status` prints it, after the page's verdict.
  absl::optional<std::string> Text(absl::Duration patience);
  // What operators have set while the job runs, a line each.
  std::string Settings(absl::Duration patience);
  // If somebody looks, waits until every open page has asked for a report that
  // is newer than this call, up to `patience`. Before a process ends, so that
  // its page says how.
  void ShowNewest(absl::Duration patience);

 private:
  void Loop();
  std::vector<absl::StatusOr<v1::StatusReply>> AskOthers(
      const std::vector<std::string>& addresses);
  // Somebody looks: waits up to `patience` for a report that is not old.
  void Look(absl::Duration patience) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  // Of the thread alone: who was asked last, so that connections are kept.
  std::map<std::vector<std::string>, std::unique_ptr<StatusClient>> clients_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  Time looked_until_ ABSL_GUARDED_BY(mutex_);
  bool has_asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool asks_at_once_ ABSL_GUARDED_BY(mutex_) = false;
  Time newest_begun_ ABSL_GUARDED_BY(mutex_);  // When the newest was asked for.
  StatusPages pages_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_CLUSTER_WATCH_H_
