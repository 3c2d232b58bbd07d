#include "client/core/fuzz/session_core.h"

#include <vector>

#include "base/check.h"
#include "base/fuzz/pieces.h"
#include "client/core/testing/configurations.h"

namespace paramd::fuzz {
namespace {

constexpr uint64_t kMostOperations = 6;

Session::Options Options() {
  Session::Options options;
  options.worker = 3;
  options.request_id_seed = 5;
  options.takes_packed = true;
  return options;
}

}  // namespace

SessionCore::SessionCore() : session_(Options()) {
  const absl::Status configured = session_.Configure(
      testing::MakeConfiguration({{"a", {2}, 0}, {"b", {3}, 1}}, 2),
      testing::Pair(1, 9));
  CHECK(configured.ok(), "the configuration is right");
  weights_ = Weights(session_.placement());
}

void SessionCore::Start(Time now, Outbox* out) { StartNext(now, out); }

void SessionCore::Receive(Message message, Time now, Outbox* out) {
  CHECK(session_.Receive(message, now, out), "the call was its own");
  Advance(now, out);
}

void SessionCore::Tick(Time now, Outbox* out) {
  session_.Tick(now, out);
  Advance(now, out);
}

void SessionCore::StartNext(Time now, Outbox* out) {
  const uint64_t operation = ++operations_;
  if (operation % 2 == 1) {
    return session_.StartPull(operation, &weights_, operation, now, out);
  }
  Session::PushInfo push;
  push.sequence = operation / 2;
  push.weights = &weights_;
  std::vector<Buffer> gradients;
  for (const uint64_t elements : session_.placement().elements()) {
    gradients.push_back(testing::Floats(std::vector<float>(elements, 0.5f)));
  }
  session_.StartPush(operation, push, std::move(gradients), now, out);
}

void SessionCore::Advance(Time now, Outbox* out) {
  while (const auto finished = session_.TakeFinished()) {
    if (!finished->status.ok()) {
      CheckRefusal(finished->status);
      return out->Exit(finished->status);
    }
    if (finished->op % 2 == 1) CheckPulled();
    if (operations_ == kMostOperations) return out->Exit(absl::OkStatus());
    StartNext(now, out);
  }
}

void SessionCore::CheckPulled() const {
  for (uint32_t slice = 0; slice < 2; ++slice) {
    CHECK(weights_.version(slice, 0).life() != 0,
          "after a pull every block has been pulled");
  }
}

}  // namespace paramd::fuzz
