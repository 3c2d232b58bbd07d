#include "process/observe/metrics_endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"

#include "base/clock.h"
#include "base/escape.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/time.h"
#include "net/listen_address.h"
#include "process/observe/metrics.h"
#include "process/observe/process_usage.h"
#include "process/observe/status_page_text.h"
#include "prometheus/metric_family.h"
#include "prometheus/text_serializer.h"
#include "proto/message_json.h"

namespace paramd {

namespace {

bool IsAddress(absl::string_view host) {
  const std::string text(host);
  in6_addr address;
  return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

prometheus::MetricFamily CertificateExpiry(absl::Time until) {
  prometheus::MetricFamily family;
  family.name = "paramd_tls_certificate_expiry_timestamp_seconds";
  family.help =
      "When this process's certificate expires, in seconds since 1970.";
  family.type = prometheus::MetricType::Gauge;
  family.metric.emplace_back();
  family.metric[0].gauge.value =
      absl::ToDoubleSeconds(until - absl::UnixEpoch());
  return family;
}

constexpr char kText[] = "text/plain; charset=utf-8";
constexpr char kNoStore[] =
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";

constexpr absl::Duration kShowLastFor = absl::Seconds(3);

constexpr char kNothingYet[] = "this process has not said anything yet";

v1::StatusPage PageOfNobody() {
  v1::StatusPage page;
  page.set_verdict(kNothingYet);
  page.set_level(v1::StatusPage::WARNING);
  return page;
}

// Who listens on this machine alone is asked for by an address or by a name
// that everybody has for it. Others may know us by any name.
HttpServer::HostCheck HostsOf(const MetricsEndpoint::Options& options,
                              const std::string& own_host) {
  if (!CheckListenAddress(options.address).ok()) return nullptr;
  return [own_host](absl::string_view host) {
    return IsAddress(host) || absl::EqualsIgnoreCase(host, "localhost") ||
           absl::EqualsIgnoreCase(host, own_host);
  };
}

}  // namespace

// The newest status, and the question for the next.
class MetricsEndpoint::Statuses
    : public std::enable_shared_from_this<Statuses> {
 public:
  explicit Statuses(const Options& options)
      : patience_(options.patience),
        certificate_until_(options.certificate_until) {}

  void SetSource(AskStatus ask) {
    MutexLock lock(&mutex_);
    // What a question that is being put has captured may go after this.
    while (is_asking_) changed_.Wait(&mutex_);
    ask_ = std::move(ask);
    ++question_;
    is_open_ = false;
    changed_.NotifyAll();
  }

  // What a scrape gets. `http`: where it comes from; null: that only begins.
  std::vector<prometheus::MetricFamily> Collect(const HttpServer* http) {
    absl::optional<v1::StatusReply> status = Newest();
    std::vector<prometheus::MetricFamily> all = ProcessUsage();
    if (certificate_until_ != nullptr) {
      all.push_back(CertificateExpiry(certificate_until_()));
    }
    if (!status.has_value()) return all;
    if (http != nullptr) {
      auto* const refused = status->add_refused_connections();
      refused->set_port("http");
      refused->set_over_limit(http->over_limit());
      refused->set_unfinished(http->unfinished());
    }
    MutexLock lock(&mutex_);
    for (auto& family : MetricsOf(*status, MonotonicNow() - taken_)) {
      all.push_back(std::move(family));
    }
    return all;
  }

  // A fresh status, or the last one if none comes; nullopt: none ever came.
  absl::optional<v1::StatusReply> Newest() {
    Ask();
    MutexLock lock(&mutex_);
    const Time until = MonotonicNow() + patience_;
    while (is_open_ && MonotonicNow() < until) {
      changed_.WaitFor(&mutex_, until - MonotonicNow());
    }
    return newest_;
  }

 private:
  void Ask() {
    AskStatus ask;
    uint64_t question;
    {
      MutexLock lock(&mutex_);
      if (is_open_ || ask_ == nullptr) return;
      is_open_ = true;
      is_asking_ = true;
      ask = ask_;
      question = question_;
    }
    ask([self = shared_from_this(), question](v1::StatusReply status) {
      self->Answered(question, std::move(status));
    });
    ask = nullptr;
    MutexLock lock(&mutex_);
    is_asking_ = false;
    changed_.NotifyAll();
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
  const std::function<absl::Time()> certificate_until_;
  Mutex mutex_;
  CondVar changed_;
  AskStatus ask_ ABSL_GUARDED_BY(mutex_);
  uint64_t question_ ABSL_GUARDED_BY(mutex_) = 0;  // One for each source.
  bool is_open_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_asking_ ABSL_GUARDED_BY(mutex_) = false;  // ask_ is being called.
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
  endpoint->statuses_ = std::make_shared<Statuses>(options);
  ClusterWatch::Options watched;
  watched.own_status = [statuses = endpoint->statuses_] {
    return statuses->Newest();
  };
  watched.tls = options.tls;
  watched.checkpoint_interval = options.checkpoint_interval;
  endpoint->watch_ = std::make_unique<ClusterWatch>(std::move(watched));
  endpoint->server_ = std::make_unique<HttpServer>(
      std::move(listeners),
      [endpoint = endpoint.get(), configuration = options.configuration,
       patience = options.patience](const HttpServer::Request& request) {
        return endpoint->Answer(request, configuration, patience);
      },
      HostsOf(options, endpoint->host_));
  endpoint->http_ = endpoint->server_.get();
  return endpoint;
}

HttpServer::Response MetricsEndpoint::Answer(const HttpServer::Request& request,
                                             const std::string& configuration,
                                             absl::Duration patience) {
  if (request.path == "/metrics") {
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            prometheus::TextSerializer().Serialize(statuses_->Collect(http_))};
  }
  if (request.path == "/" && request.wants_html) {
    return {200, "text/html; charset=utf-8", StatusPageHtml(),
            StatusPageHeader()};
  }
  if (request.path == "/") {
    const auto text = watch_->Text(patience);
    if (!text.has_value()) {
      return {503, kText, absl::StrCat(kNothingYet, "\n"), kNoStore};
    }
    return {200, kText, EscapeControls(*text), kNoStore};
  }
  if (request.path == "/status.json") {
    uint64_t since = 0;  // Of a client that says something else: all there is.
    absl::string_view number = request.query;
    if (absl::ConsumePrefix(&number, "since=") &&
        !absl::SimpleAtoi(number, &since)) {
      since = 0;
    }
    const auto page = watch_->Page(since, patience);
    // A browser would report another code as an error of the page.
    const auto json = MessageJson(page.has_value() ? *page : PageOfNobody());
    if (!json.ok()) return {500, kText, std::string(json.status().message())};
    return {200, "application/json", *json, kNoStore};
  }
  if (request.path == "/config") {
    const std::string settings = watch_->Settings(patience);
    return {200, kText,
            EscapeControls(absl::StrCat(
                configuration,
                settings.empty() ? "" : "\nwhile the job runs:\n", settings)),
            kNoStore};
  }
  return {404, kText, "here are /, /status.json, /config and /metrics\n"};
}

void MetricsEndpoint::SetSource(AskStatus ask) {
  statuses_->SetSource(std::move(ask));
}

void MetricsEndpoint::ShowLast(v1::StatusReply last) {
  SetSource([last = std::move(last)](auto done) { done(last); });
  watch_->ShowNewest(kShowLastFor);
}

std::string MetricsEndpoint::url() const {
  return absl::StrCat("http://", host_, ":", server_->port(), "/metrics");
}

}  // namespace paramd
