#include "process/observe/status_poller.h"

#include <utility>

#include "base/clock.h"
#include "process/observe/status_client.h"

namespace paramd {

StatusPoller::StatusPoller(std::vector<std::string> addresses,
                           absl::Duration period,
                           std::shared_ptr<const Tls> tls)
    : addresses_(std::move(addresses)),
      period_(period),
      tls_(std::move(tls)),
      answers_(addresses_.size()),
      thread_([this] { Loop(); }) {}

StatusPoller::~StatusPoller() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

std::vector<StatusPoller::Answer> StatusPoller::Newest() const {
  MutexLock lock(&mutex_);
  return answers_;
}

void StatusPoller::Loop() {
  StatusClient client(addresses_, tls_);
  while (true) {
    const absl::Time next = absl::Now() + period_;
    // A call that fails at once would leave nobody polling, and a connection
    // that is being made would not get on until the next question.
    auto answers = client.Ask(period_, StatusClient::Patience::kKeepTrying);
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < answers.size(); ++i) {
      answers_[i].answered_last = answers[i].ok();
      if (!answers[i].ok()) continue;
      answers_[i].newest = *std::move(answers[i]);
      answers_[i].received = MonotonicNow();
    }
    while (!stopped_ && absl::Now() < next) {
      changed_.WaitFor(&mutex_, next - absl::Now());
    }
    if (stopped_) return;
  }
}

}  // namespace paramd
