#include "cli/metrics_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/time.h"
#include "cli/metrics.h"
#include "cli/process_usage.h"
#include "net/listen_address.h"
#include "prometheus/collectable.h"
#include "prometheus/exposer.h"
#include "prometheus/metric_family.h"

namespace paramd {
namespace {

// Connects to a server of this process, and hangs up.
void Knock(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) !=
      0) {
    return;
  }
  const int fd =
      socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) {
    connect(fd, found->ai_addr, found->ai_addrlen);
    close(fd);
  }
  freeaddrinfo(found);
}

}  // namespace

// The newest status, and the question for the next.
class MetricsEndpoint::Statuses
    : public prometheus::Collectable,
      public std::enable_shared_from_this<Statuses> {
 public:
  explicit Statuses(absl::Duration patience) : patience_(patience) {}

  void SetSource(AskStatus ask) {
    MutexLock lock(&mutex_);
    ask_ = std::move(ask);
    ++question_;
    is_open_ = false;
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    return const_cast<Statuses*>(this)->CollectFresh();
  }

 private:
  std::vector<prometheus::MetricFamily> CollectFresh() {
    Ask();
    std::vector<prometheus::MetricFamily> all = ProcessUsage();
    MutexLock lock(&mutex_);
    const Time until = MonotonicNow() + patience_;
    while (is_open_ && MonotonicNow() < until) {
      changed_.WaitFor(&mutex_, until - MonotonicNow());
    }
    if (!newest_.has_value()) return all;
    for (auto& family : MetricsOf(*newest_, MonotonicNow() - taken_)) {
      all.push_back(std::move(family));
    }
    return all;
  }

  void Ask() {
    AskStatus ask;
    uint64_t question;
    {
      MutexLock lock(&mutex_);
      if (is_open_ || ask_ == nullptr) return;
      is_open_ = true;
      ask = ask_;
      question = question_;
    }
    ask([self = shared_from_this(), question](v1::StatusReply status) {
      self->Answered(question, std::move(status));
    });
  }

  void Answered(uint64_t question, v1::StatusReply status) {
    MutexLock lock(&mutex_);
    if (question != question_) return;
    newest_ = std::move(status);
    taken_ = MonotonicNow();
    is_open_ = false;
    changed_.NotifyAll();
  }

  const absl::Duration patience_;
  Mutex mutex_;
  CondVar changed_;
  AskStatus ask_ ABSL_GUARDED_BY(mutex_);
  uint64_t question_ ABSL_GUARDED_BY(mutex_) = 0;  // One for each source.
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  absl::optional<v1::StatusReply> newest_ ABSL_GUARDED_BY(mutex_);
  Time taken_ ABSL_GUARDED_BY(mutex_);
};

MetricsEndpoint::MetricsEndpoint() = default;

// The server looks every 2 s whether it shall end, or when somebody connects.
MetricsEndpoint::~MetricsEndpoint() {
  if (exposer_ == nullptr) return;
  Mutex mutex;
  CondVar changed;
  bool ended = false;
  std::thread waker([&, port = port()] {
    MutexLock lock(&mutex);
    while (!ended) {
      Knock(host_, port);
      changed.WaitFor(&mutex, absl::Milliseconds(5));
    }
  });
  exposer_.reset();
  {
    MutexLock lock(&mutex);
    ended = true;
    changed.NotifyAll();
  }
  waker.join();
}

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(
    const Options& options) {
  RETURN_IF_ERROR(CheckListenAddress(options.address, options.insecure));
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint);
  endpoint->host_ = options.address.substr(0, options.address.rfind(':'));
  endpoint->statuses_ = std::make_shared<Statuses>(options.patience);
  try {
    // A client that stands still holds one of the threads for so long.
    endpoint->exposer_ =
        std::make_unique<prometheus::Exposer>(std::vector<std::string>{
            "listening_ports", options.address, "num_threads", "4",
            "request_timeout_ms", "5000"});
  } catch (const std::exception&) {
    // It doesn't say why.
    return WhyBindFails(options.address);
  }
  endpoint->exposer_->RegisterCollectable(endpoint->statuses_);
  return endpoint;
}

void MetricsEndpoint::SetSource(AskStatus ask) {
  statuses_->SetSource(std::move(ask));
}

int MetricsEndpoint::port() const {
  const std::vector<int> ports = exposer_->GetListeningPorts();
  return ports.empty() ? 0 : ports[0];
}

std::string MetricsEndpoint::url() const {
  return absl::StrCat("http://", host_, ":", port(), "/metrics");
}

}  // namespace paramd
