#include "base/worker_thread.h"

#include <pthread.h>

#include <utility>

namespace paramd {
namespace {

constexpr size_t kMostWaiting = 4096;

}  // namespace

WorkerThread::WorkerThread(absl::string_view name)
    : thread_([this] { Loop(); }) {
  const std::string short_name(name.substr(0, 15));
  pthread_setname_np(thread_.native_handle(), short_name.c_str());
}

WorkerThread::~WorkerThread() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void WorkerThread::Post(std::function<void()> f) {
  MutexLock lock(&mutex_);
  while (waiting_.size() >= kMostWaiting) changed_.Wait(&mutex_);
  waiting_.push_back(std::move(f));
  changed_.NotifyAll();
}

void WorkerThread::Loop() {
  while (true) {
    std::function<void()> f;
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(&mutex_);
      if (stopping_) return;
      f = std::move(waiting_.front());
      waiting_.pop_front();
      if (waiting_.size() + 1 == kMostWaiting) changed_.NotifyAll();
    }
    f();
  }
}

}  // namespace paramd
