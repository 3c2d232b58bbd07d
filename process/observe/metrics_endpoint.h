#ifndef PARAMD_PROCESS_OBSERVE_METRICS_ENDPOINT_H_
#define PARAMD_PROCESS_OBSERVE_METRICS_ENDPOINT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "net/tls.h"
#include "process/observe/cluster_watch.h"
#include "process/observe/http_server.h"
#include "proto/paramd/v1/status.pb.h"

namespace paramd {

// Serves over HTTP, on threads of its own, what people and Prometheus see of
// this process and its cluster:
//
//   /              a page that shows the cluster, or its text for curl
//   /status.json   what the page shows, v1::StatusPage; ?since=N: points of its
//                  curves after the N-th
//   /config        the effective configuration, with where each value is from
//   /metrics       this process, for Prometheus
//
// A scrape asks for a fresh status and waits for it a little while; if none
// comes it answers with the last one and its age, so that a slow loop is seen
// rather than a gap.
//
// Invariant: at most one question for a status is open, whatever the number of
// scrapes. Thread-safe. The destructor ends the threads.
class MetricsEndpoint {
 public:
  // Asks the process for its status. Must not block; `done` is called with it
  // on any thread, at most once, at any time, also after the endpoint is gone.
  using AskStatus =
      std::function<void(std::function<void(v1::StatusReply)> done)>;
  struct Options {
    std::string address;  // "host:port"; port 0: any free one.
    // Also where others than this machine can reach it, under any name. Where
    // only this machine can, the Host of a request is an address, "localhost"
    // or the host of `address`.
    bool insecure = false;
    // Until when this process's certificate holds; null: it has none. Called on
    // the endpoint's thread.
    std::function<absl::Time()> certificate_until = nullptr;
    // How long a scrape waits for a fresh status.
    absl::Duration patience = absl::Milliseconds(200);
    // As this process has to prove itself to others; null: it has not.
    std::shared_ptr<const Tls> tls = nullptr;
    std::string configuration = {};           // What /config says.
    absl::Duration checkpoint_interval = {};  // As of StatusPages.
  };

  // Listens from now on. kAlreadyExists if the port is in use;
  // kInvalidArgument if the address can't be bound, or may not.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Listen(
      const Options& options);
  ~MetricsEndpoint();

  // Whom to ask from now on; a question that is open is forgotten. Nobody asks
  // the one before any more when it returns. REQUIRES: not called by an
  // AskStatus.
  void SetSource(AskStatus ask);

  // From now on this process says `last`. If somebody looks at its page, waits
  // until that was shown, three seconds at most.
  void ShowLast(v1::StatusReply last);

  // "http://127.0.0.1:9090/metrics", with the port that was taken; the page is
  // at "/" there.
  std::string url() const;

 private:
  class Statuses;

  MetricsEndpoint() = default;
  HttpServer::Response Answer(const HttpServer::Request& request,
                              const std::string& configuration,
                              absl::Duration patience);

  std::string host_;
  std::shared_ptr<Statuses> statuses_;
  std::unique_ptr<ClusterWatch> watch_;
  // Of server_, whose thread may answer before that is set.
  std::atomic<const HttpServer*> http_{nullptr};
  std::unique_ptr<HttpServer> server_;  // Last: ends first.
};

}  // namespace paramd

#endif  // PARAMD_PROCESS_OBSERVE_METRICS_ENDPOINT_H_
