#include "net/health.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "net/testing/raw_caller.h"
#include "net/testing/raw_stream.h"
#include "net/testing/stream_loop.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";

HealthCheckRequest Of(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request;
}

class HealthTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::string> Check(const std::string& service) {
    const auto bytes = RawCaller(loop_.address())
                           .Call(kCheck, "", Of(service).SerializeAsString());
    if (!bytes.ok()) return bytes.status();
    HealthCheckResponse response;
    EXPECT_TRUE(response.ParseFromString(*bytes));
    return HealthCheckResponse::ServingStatus_Name(response.status());
  }
  std::unique_ptr<RawStream> Watch(const std::string& service) {
    auto call = std::make_unique<RawStream>(loop_.address(), kWatch);
    EXPECT_TRUE(call->Send(Of(service)));
    call->HalfClose();
    return call;
  }
  // The next status that a watcher is told.
  static std::string Told(const std::unique_ptr<RawStream>& watch) {
    return HealthCheckResponse::ServingStatus_Name(
        watch->ReadAs<HealthCheckResponse>().status());
  }
  void SetRestored(bool restored) {
    loop_.Do([this, restored] {
      restored_ = restored;
      now_ = now_ + absl::Seconds(1);
      health_.Tick(now_);
    });
  }

  // Of the loop thread.
  bool restored_ = false;
  Time now_ = MonotonicNow();
  Health health_{[this] { return restored_; }};
  StreamLoop loop_{[this](StreamServer* streams) { health_.AddTo(streams); }};
};

TEST_F(HealthTest, AProcessIsReadyBeforeItIsRestored) {
  EXPECT_EQ(*Check(""), "SERVING");
  EXPECT_EQ(*Check("readiness"), "SERVING");
  EXPECT_EQ(*Check("liveness"), "SERVING");
  EXPECT_EQ(*Check("restored"), "NOT_SERVING");
  SetRestored(true);
  EXPECT_EQ(*Check("restored"), "SERVING");
}

TEST_F(HealthTest, ADrainingProcessIsAliveAndNotReady) {
  SetRestored(true);
  loop_.Do([&] { health_.SetDraining(); });
  EXPECT_EQ(*Check(""), "NOT_SERVING");
  EXPECT_EQ(*Check("readiness"), "NOT_SERVING");
  EXPECT_EQ(*Check("liveness"), "SERVING");
  EXPECT_EQ(*Check("restored"), "SERVING");
}

TEST_F(HealthTest, AServiceThatIsNotThereIsNotFound) {
  EXPECT_EQ(Check("paramd.v1.Control").status(),
            absl::NotFoundError(
                "there is no service 'paramd.v1.Control'; there are '', "
                "'readiness', 'liveness' and 'restored'"));
}

TEST_F(HealthTest, AWatcherIsToldAtOnceAndWhenItChanges) {
  const auto ready = Watch("");
  const auto restored = Watch("restored");
  EXPECT_EQ(Told(ready), "SERVING");
  EXPECT_EQ(Told(restored), "NOT_SERVING");
  SetRestored(true);
  EXPECT_EQ(Told(restored), "SERVING");
  SetRestored(true);
  SetRestored(false);
  EXPECT_EQ(Told(restored), "NOT_SERVING");
  loop_.Do([&] { health_.SetDraining(); });
  EXPECT_EQ(Told(ready), "NOT_SERVING");
}

TEST_F(HealthTest, WatchingAServiceThatIsNotThereGoesOn) {
  const auto watch = Watch("shards");
  EXPECT_EQ(Told(watch), "SERVICE_UNKNOWN");
  loop_.Do([&] {
    health_.SetDraining();
    loop_.streams().RefuseAll(absl::UnavailableError("ending"));
  });
  EXPECT_FALSE(watch->Read().has_value());
  EXPECT_EQ(watch->Finish(), absl::UnavailableError("ending"));
}

TEST_F(HealthTest, RestoredIsLookedAtOnceASecondWhileSomebodyWatches) {
  const auto next_tick = [&] {
    Time next;
    loop_.Do([&] { next = health_.next_tick(); });
    return next;
  };
  EXPECT_EQ(next_tick(), Time::Never());
  auto watch = Watch("restored");
  EXPECT_EQ(Told(watch), "NOT_SERVING");
  SetRestored(false);
  EXPECT_EQ(next_tick(), now_ + absl::Seconds(1));
  watch.reset();
  while (next_tick() != Time::Never()) {
  }
}

TEST_F(HealthTest, WatchersAreBounded) {
  std::vector<std::unique_ptr<RawStream>> watching;
  for (int i = 0; i < 64; ++i) {
    watching.push_back(Watch(""));
    EXPECT_EQ(Told(watching.back()), "SERVING");
  }
  const auto refused = Watch("");
  EXPECT_FALSE(refused->Read().has_value());
  const absl::Status status = refused->Finish();
  EXPECT_EQ(status.message(), "64 calls watch the health");
  EXPECT_EQ(RefusalOf(status).reason(), v1::Refusal::OVER_LIMIT);
  EXPECT_EQ(*Check(""), "SERVING");
  // Who leaves makes room.
  watching.pop_back();
  std::unique_ptr<RawStream> next;
  do {
    next = Watch("");
  } while (Told(next) != "SERVING");
}

TEST_F(HealthTest, BadRequestsAreRefused) {
  RawCaller caller(loop_.address());
  EXPECT_EQ(caller.Call(kCheck, "", "\xff").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RefusalOf(Check(std::string(513, 'x')).status()).reason(),
            v1::Refusal::OVER_LIMIT);
  RawStream check(loop_.address(), kCheck);
  check.HalfClose();
  EXPECT_FALSE(check.Read().has_value());
  EXPECT_EQ(check.Finish(),
            absl::InvalidArgumentError("a Check without a request"));
  RawStream watch(loop_.address(), kWatch);
  watch.HalfClose();
  EXPECT_FALSE(watch.Read().has_value());
  EXPECT_EQ(watch.Finish(),
            absl::InvalidArgumentError("a Watch without a request"));
}

}  // namespace
}  // namespace paramd
