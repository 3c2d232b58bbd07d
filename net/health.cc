#include "net/health.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "net/wire_message.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr size_t kMostWatching = 64;
constexpr size_t kMostServiceBytes = 512;
constexpr absl::Duration kLook = absl::Seconds(1);

absl::StatusOr<std::string> ServiceIn(const grpc::ByteBuffer& message) {
  auto decoded = DecodeMessage(message, HealthCheckRequest::default_instance());
  if (!decoded.ok()) return decoded.status();
  auto& request = static_cast<HealthCheckRequest&>(*decoded->head);
  if (request.service().size() > kMostServiceBytes) {
    return Refuse(
        v1::Refusal::OVER_LIMIT, "service",
        absl::StrCat("the name of a service of ", request.service().size(),
                     " bytes; the limit is ", kMostServiceBytes));
  }
  return std::move(*request.mutable_service());
}

}  // namespace

class Health::CheckCall : public StreamHandler {
 public:
  CheckCall(const Health* health, Stream* stream)
      : health_(health), stream_(stream) {}

  void Received(const grpc::ByteBuffer& message) override {
    const auto service = ServiceIn(message);
    if (!service.ok()) {
      stream_->Finish(service.status());
      return;
    }
    HealthCheckResponse response;
    response.set_status(health_->StatusOf(*service));
    if (response.status() == HealthCheckResponse::SERVICE_UNKNOWN) {
      stream_->Finish(absl::NotFoundError(absl::StrCat(
          "there is no service '", *service,
          "'; there are '', 'readiness', 'liveness' and 'restored'")));
      return;
    }
    stream_->Write(response);
    stream_->Finish(absl::OkStatus());
  }
  void HalfClosed() override {
    stream_->Finish(absl::InvalidArgumentError("a Check without a request"));
  }

 private:
  const Health* const health_;
  Stream* const stream_;
};

class Health::WatchCall : public StreamHandler {
 public:
  WatchCall(Health* health, Stream* stream)
      : health_(health), stream_(stream) {}
  ~WatchCall() override { health_->watching_.erase(this); }

  void Received(const grpc::ByteBuffer& message) override {
    if (is_watching_) return;
    auto service = ServiceIn(message);
    if (service.ok() && health_->watching_.size() >= kMostWatching) {
      service =
          RefuseForNow(v1::Refusal::OVER_LIMIT, "Watch", absl::Seconds(1),
                       absl::StrCat(kMostWatching, " calls watch the health"));
    }
    if (!service.ok()) {
      stream_->Finish(service.status());
      return;
    }
    service_ = *std::move(service);
    is_watching_ = true;
    health_->watching_.insert(this);
    stream_->ExpectSilence();
    Tell();
  }
  void HalfClosed() override {
    if (is_watching_) return;
    stream_->Finish(absl::InvalidArgumentError("a Watch without a request"));
  }
  void Written() override { Tell(); }

  // The status, if it is news.
  void Tell() {
    if (!stream_->may_write()) return;
    const Status status = health_->StatusOf(service_);
    if (status == last_status_) return;
    last_status_ = status;
    HealthCheckResponse response;
    response.set_status(status);
    stream_->Write(response);
  }

 private:
  Health* const health_;
  Stream* const stream_;
  bool is_watching_ = false;
  std::string service_;
  Status last_status_ = HealthCheckResponse::UNKNOWN;
};

Health::Health(std::function<bool()> restored)
    : restored_(std::move(restored)) {}

Health::~Health() = default;

void Health::AddTo(StreamServer* server) {
  server->Serve("/grpc.health.v1.Health/Check", [this](Stream* stream) {
    return std::make_unique<CheckCall>(this, stream);
  });
  server->Serve("/grpc.health.v1.Health/Watch", [this](Stream* stream) {
    return std::make_unique<WatchCall>(this, stream);
  });
}

Health::Status Health::StatusOf(absl::string_view service) const {
  const auto serving = [](bool is_serving) {
    return is_serving ? HealthCheckResponse::SERVING
                      : HealthCheckResponse::NOT_SERVING;
  };
  if (service.empty() || service == "readiness") return serving(!draining_);
  if (service == "liveness") return HealthCheckResponse::SERVING;
  if (service == "restored") return serving(restored_());
  return HealthCheckResponse::SERVICE_UNKNOWN;
}

void Health::SetDraining() {
  draining_ = true;
  for (WatchCall* const call : watching_) call->Tell();
}

void Health::Tick(Time now) {
  if (now < next_look_) return;
  next_look_ = now + kLook;
  for (WatchCall* const call : watching_) call->Tell();
}

Time Health::next_tick() const {
  return watching_.empty() ? Time::Never() : next_look_;
}

}  // namespace paramd
