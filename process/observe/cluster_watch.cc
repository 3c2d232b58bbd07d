#include "process/observe/cluster_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"

namespace paramd {
namespace {

constexpr absl::Duration kPeriod = absl::Seconds(1);
constexpr absl::Duration kPeriodOfChief = absl::Seconds(10);
// Pages ask each second.
constexpr absl::Duration kLookFor = absl::Seconds(5);
constexpr absl::Duration kDeadline = absl::Seconds(2);
// Of a process that nobody reaches by network.
constexpr char kHere[] = "here";
// The chief, and the members.
constexpr size_t kMostClients = 2;

}  // namespace

ClusterWatch::ClusterWatch(Options options)
    : options_(std::move(options)),
      pages_(options_.checkpoint_interval),
      thread_([this] { Loop(); }) {}

ClusterWatch::~ClusterWatch() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void ClusterWatch::Loop() {
  Time begun;  // The newest question.
  while (true) {
    bool is_looked_at;
    {
      MutexLock lock(&mutex_);
      while (true) {
        const Time now = MonotonicNow();
        is_looked_at = now < looked_until_;
        const absl::Duration left =
            begun + (is_looked_at ? kPeriod : kPeriodOfChief) - now;
        if (stopped_ || !has_asked_ || asks_at_once_ ||
            left <= absl::ZeroDuration()) {
          break;
        }
        changed_.WaitFor(&mutex_, left);
      }
      if (stopped_) return;
      has_asked_ = true;
      asks_at_once_ = false;
    }
    begun = MonotonicNow();
    absl::optional<v1::StatusReply> own = options_.own_status();
    if (!own.has_value() || !(is_looked_at || own->has_job())) continue;
    const std::string self = own->address().empty() ? kHere : own->address();
    auto report =
        MakeClusterReport(self,
                          [&](const std::vector<std::string>& addresses)
                              -> std::vector<absl::StatusOr<v1::StatusReply>> {
                            if (addresses == std::vector<std::string>{self})
                              return {*own};
                            return AskOthers(addresses);
                          });
    if (!report.ok()) continue;
    MutexLock lock(&mutex_);
    pages_.Add(*std::move(report), MonotonicNow(), absl::Now());
    newest_begun_ = begun;
    changed_.NotifyAll();
  }
}

std::vector<absl::StatusOr<v1::StatusReply>> ClusterWatch::AskOthers(
    const std::vector<std::string>& addresses) {
  if (clients_.find(addresses) == clients_.end() &&
      clients_.size() >= kMostClients) {
    clients_.clear();
  }
  std::unique_ptr<StatusClient>& client = clients_[addresses];
  if (client == nullptr) {
    client = std::make_unique<StatusClient>(addresses, options_.tls);
  }
  return client->Ask(kDeadline, StatusClient::Patience::kFailAtOnce);
}

void ClusterWatch::Look(absl::Duration patience) {
  const Time now = MonotonicNow();
  looked_until_ = now + kLookFor;
  changed_.NotifyAll();
  while (
      !(pages_.newest().has_value() && pages_.taken() + 2 * kPeriod >= now) &&
      MonotonicNow() < now + patience) {
    changed_.WaitFor(&mutex_, now + patience - MonotonicNow());
  }
}

absl::optional<v1::StatusPage> ClusterWatch::Page(uint64_t since,
                                                  absl::Duration patience) {
  MutexLock lock(&mutex_);
  Look(patience);
  if (!pages_.newest().has_value()) return absl::nullopt;
  return pages_.PageAt(MonotonicNow(), since);
}

absl::optional<std::string> ClusterWatch::Text(absl::Duration patience) {
  MutexLock lock(&mutex_);
  Look(patience);
  if (!pages_.newest().has_value()) return absl::nullopt;
  return absl::StrCat(pages_.PageAt(MonotonicNow(), 0).verdict(), "\n\n",
                      RenderReport(*pages_.newest()));
}

void ClusterWatch::ShowNewest(absl::Duration patience) {
  MutexLock lock(&mutex_);
  const Time begin = MonotonicNow();
  if (begin >= looked_until_) return;
  const Time end = begin + patience;
  asks_at_once_ = true;
  changed_.NotifyAll();
  while (newest_begun_ < begin && MonotonicNow() < end) {
    changed_.WaitFor(&mutex_, end - MonotonicNow());
  }
  // Each page asks within a period from now.
  const Time seen = std::min(end, MonotonicNow() + 1.5 * kPeriod);
  while (MonotonicNow() < seen) {
    changed_.WaitFor(&mutex_, seen - MonotonicNow());
  }
}

std::string ClusterWatch::Settings(absl::Duration patience) {
  MutexLock lock(&mutex_);
  Look(patience);
  if (!pages_.newest().has_value()) return "";
  return RenderSettings(pages_.newest()->job());
}

}  // namespace paramd
