#include "cli/metrics_endpoint.h"

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
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"

namespace paramd {

// The newest status, and the question for the next.
class MetricsEndpoint::Statuses
    : public std::enable_shared_from_this<Statuses> {
 public:
  explicit Statuses(absl::Duration patience) : patience_(patience) {}

  void SetSource(AskStatus ask) {
    MutexLock lock(&mutex_);
    ask_ = std::move(ask);
    ++question_;
    is_open_ = false;
  }

  // What a scrape gets.
  std::vector<prometheus::MetricFamily> Collect() {
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

 private:
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

MetricsEndpoint::~MetricsEndpoint() = default;

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(
    const Options& options) {
  if (!options.insecure) {
    RETURN_IF_ERROR(CheckListenAddress(options.address));
  }
  ASSIGN_OR_RETURN(
      std::vector<int> listeners,
      ListenAt(options.address, /*or_everywhere=*/options.insecure));
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint);
  endpoint->host_ = options.address.substr(0, options.address.rfind(':'));
  endpoint->statuses_ = std::make_shared<Statuses>(options.patience);
  endpoint->server_ = std::make_unique<HttpServer>(
      std::move(listeners),
      [statuses = endpoint->statuses_](
          const std::string& path) -> HttpServer::Response {
        if (path != "/metrics") {
          return {404, "text/plain", "only /metrics is served here\n"};
        }
        return {200, "text/plain; version=0.0.4; charset=utf-8",
                prometheus::TextSerializer().Serialize(statuses->Collect())};
      });
  return endpoint;
}

void MetricsEndpoint::SetSource(AskStatus ask) {
  statuses_->SetSource(std::move(ask));
}

std::string MetricsEndpoint::url() const {
  return absl::StrCat("http://", host_, ":", server_->port(), "/metrics");
}

}  // namespace paramd
