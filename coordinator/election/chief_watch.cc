#include "coordinator/election/chief_watch.h"

#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "coordinator/election/chief_election.h"

namespace paramd {
namespace {

constexpr absl::Duration kWatchFor = absl::Seconds(10);
constexpr absl::Duration kAskAgain = absl::Seconds(1);

}  // namespace

absl::StatusOr<std::unique_ptr<ChiefWatch>> ChiefWatch::Start(
    const ElectionPlace& place, const std::string& tls_directory,
    const std::string& address) {
  ASSIGN_OR_RETURN(auto client, EtcdClient::Create(place, tls_directory));
  std::unique_ptr<ChiefWatch> watch(
      new ChiefWatch(place, std::move(client), address));
  watch->thread_ = std::thread([raw = watch.get()] { raw->Loop(); });
  return watch;
}

ChiefWatch::ChiefWatch(const ElectionPlace& place,
                       std::unique_ptr<EtcdClient> client,
                       const std::string& address)
    : key_(place.key()), client_(std::move(client)), chief_(address) {}

ChiefWatch::~ChiefWatch() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  stopped_.NotifyAll();
  client_->Cancel();
  if (thread_.joinable()) thread_.join();
}

std::string ChiefWatch::address() const {
  const MutexLock lock(&mutex_);
  return chief_.address();
}

void ChiefWatch::Loop() {
  bool was_away = false;
  while (true) {
    const absl::Status looked = Look();
    const Time until = MonotonicNow() + kAskAgain;
    MutexLock lock(&mutex_);
    if (stopping_) return;
    if (!std::exchange(was_away, !looked.ok()) && !looked.ok()) {
      Log(LogLevel::kWarning,
          "etcd is away; the chief that is known counts until it is back",
          {{"chief", chief_.address()}, {"why", looked.message()}});
    }
    if (looked.ok()) continue;
    while (!stopping_ && MonotonicNow() < until) {
      stopped_.WaitFor(&mutex_, until - MonotonicNow());
    }
  }
}

absl::Status ChiefWatch::Look() {
  ASSIGN_OR_RETURN(const EtcdClient::Found found, client_->Get(key_));
  {
    const MutexLock lock(&mutex_);
    if (chief_.Found(KeyOf(found))) {
      Log(LogLevel::kInfo, "the chief is elsewhere",
          {{"chief", chief_.address()}});
    }
  }
  return client_->WaitForChange(key_, found.revision, kWatchFor);
}

}  // namespace paramd
