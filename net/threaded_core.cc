#include "net/threaded_core.h"

#include <pthread.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kSayEvery = absl::Seconds(1);
// Above what RequestServer lets wait: this bounds what nobody waits for any
// more.
constexpr size_t kMostQueued = 16384;

template <typename T>
void Append(std::vector<T> from, std::vector<T>* to) {
  if (to->empty()) {
    *to = std::move(from);
    return;
  }
  std::move(from.begin(), from.end(), std::back_inserter(*to));
}

void Append(Outbox from, Outbox* to) {
  Append(std::move(from.replies), &to->replies);
  Append(std::move(from.sends), &to->sends);
  Append(std::move(from.ios), &to->ios);
  Append(std::move(from.notes), &to->notes);
  to->cancels_oldest_reply |= from.cancels_oldest_reply;
  if (from.exited) to->Exit(std::move(from.exit_status));
}

bool IsEmpty(const Outbox& out) {
  return out.replies.empty() && out.sends.empty() && out.ios.empty() &&
         out.notes.empty() && !out.cancels_oldest_reply && !out.exited;
}

}  // namespace

ThreadedCore::ThreadedCore(absl::string_view name, Core* core,
                           std::function<void()> wake)
    : name_(name),
      core_(core),
      wake_(std::move(wake)),
      events_(std::make_shared<Mailbox>()),
      thread_([this] { Run(); }) {
  const std::string short_name(name.substr(0, 15));
  pthread_setname_np(thread_.native_handle(), short_name.c_str());
}

ThreadedCore::~ThreadedCore() {
  events_->Post([this] { stopping_ = true; });
  thread_.join();
  events_->Close();
}

void ThreadedCore::HandleIo(const google::protobuf::Descriptor* type,
                            Runtime::IoHandler handler) {
  Look([&] { io_handlers_[type] = std::move(handler); });
}

void ThreadedCore::Start(Time, Outbox*) {
  Give([this](Time now, Outbox* out) {
    started_ = true;
    core_->Start(now, out);
  });
}

void ThreadedCore::Receive(Message message, Time, Outbox* out) {
  OwnedMessage owned;
  if (message.head != nullptr) {
    owned.head.reset(message.head->New());
    owned.head->CopyFrom(*message.head);
  }
  owned.message = std::move(message);
  owned.message.head = owned.head.get();
  if (owned.message.is_reply) {
    // std::function copies what it holds, hence shared_ptr here and below.
    auto held = std::make_shared<OwnedMessage>(std::move(owned));
    Give([this, held](Time now, Outbox* out) {
      core_->Receive(std::move(held->message), now, out);
    });
    return;
  }
  const CallId call = owned.message.call;
  if (Queue(std::move(owned))) {
    events_->Post([this, call] {
      const auto request = TakeUp(call);
      if (request == nullptr) return;
      Do([&](Time now, Outbox* out) {
        core_->Receive(std::move(request->message), now, out);
      });
    });
    return;
  }
  out->Refuse(call, RefuseForNow(v1::Refusal::OVER_LIMIT, name_,
                                 absl::Milliseconds(100),
                                 absl::StrCat(kMostQueued,
                                              " requests wait for the thread "
                                              "of ",
                                              name_)));
}

bool ThreadedCore::Queue(OwnedMessage request) {
  auto held = std::make_unique<OwnedMessage>(std::move(request));
  const MutexLock lock(&mutex_);
  if (queued_ == kMostQueued) return false;
  ++queued_;
  const CallId call = held->message.call;
  requests_[call] = std::move(held);
  return true;
}

std::unique_ptr<ThreadedCore::OwnedMessage> ThreadedCore::TakeUp(CallId call) {
  const MutexLock lock(&mutex_);
  --queued_;
  auto request = requests_.extract(call);
  return request.empty() ? nullptr : std::move(request.mapped());
}

void ThreadedCore::Withdraw(CallId call) {
  std::unique_ptr<OwnedMessage> dropped;  // Without the lock.
  const MutexLock lock(&mutex_);
  auto request = requests_.extract(call);
  if (!request.empty()) dropped = std::move(request.mapped());
}

void ThreadedCore::Completed(IoResult result, Time, Outbox*) {
  auto held = std::make_shared<IoResult>(std::move(result));
  Give([this, held](Time now, Outbox* out) {
    core_->Completed(std::move(*held), now, out);
  });
}

void ThreadedCore::Drain(Time, Outbox*) {
  Give([this](Time now, Outbox* out) { core_->Drain(now, out); });
}

void ThreadedCore::Tick(Time, Outbox* out) {
  std::vector<Outbox> done;
  {
    const MutexLock lock(&mutex_);
    done.swap(done_);
  }
  for (Outbox& one : done) Append(std::move(one), out);
}

Time ThreadedCore::next_tick() const {
  const MutexLock lock(&mutex_);
  return done_.empty() ? Time::Never() : Time();
}

std::string ThreadedCore::overdue(Time) const {
  const MutexLock lock(&mutex_);
  return overdue_;
}

void ThreadedCore::Look(const std::function<void()>& f) {
  Looking looking{f};
  {
    const MutexLock lock(&mutex_);
    looks_.push_back(&looking);
  }
  events_->Post([] {});  // It may be asleep.
  MutexLock lock(&mutex_);
  while (!looking.ended) looked_.Wait(&mutex_);
}

bool ThreadedCore::LookWaitsForTest() const {
  const MutexLock lock(&mutex_);
  return !looks_.empty();
}

// Who looks holds up the loop, and so the network of all cores of the process:
// not for a whole queue.
void ThreadedCore::LetLook() {
  std::vector<Looking*> looks;
  {
    const MutexLock lock(&mutex_);
    looks.swap(looks_);
  }
  for (Looking* const looking : looks) {
    looking->f();
    const MutexLock lock(&mutex_);
    looking->ended = true;  // Then it is gone.
    looked_.NotifyAll();
  }
}

void ThreadedCore::Give(Call call) {
  events_->Post([this, call = std::move(call)] { Do(call); });
}

void ThreadedCore::Run() {
  while (!stopping_) {
    for (const auto& f : events_->Take()) {
      LetLook();
      f();
    }
    if (stopping_) return;
    const Time now = MonotonicNow();
    Time next = Time::Never();
    if (started_ && !exited_) {
      SayWhomItWaitsFor(now);
      if (core_->next_tick() <= now) {
        Do([this](Time at, Outbox* out) { core_->Tick(at, out); });
      }
      next = std::min(core_->next_tick(), says_next_);
    }
    if (next > MonotonicNow()) events_->Wait(next - MonotonicNow());
  }
}

void ThreadedCore::Do(const Call& call) {
  if (exited_) return;
  Outbox out;
  call(MonotonicNow(), &out);
  exited_ = out.exited;
  StartIos(&out);
  if (!IsEmpty(out)) HandBack(std::move(out));
}

void ThreadedCore::StartIos(Outbox* out) {
  std::vector<Outbox::IoItem> others;
  for (Outbox::IoItem& item : out->ios) {
    const auto handler = io_handlers_.find(item.head->GetDescriptor());
    if (handler == io_handlers_.end()) {
      others.push_back(std::move(item));
      continue;
    }
    // `this` is used on the core's thread alone, and what is posted after its
    // end is dropped.
    handler->second(std::move(item),
                    [this, io = item.io, events = events_](IoResult result) {
                      result.io = io;
                      auto held = std::make_shared<IoResult>(std::move(result));
                      events->Post([this, held] {
                        Do([&](Time now, Outbox* out) {
                          core_->Completed(std::move(*held), now, out);
                        });
                      });
                    });
  }
  out->ios = std::move(others);
}

void ThreadedCore::HandBack(Outbox out) {
  {
    const MutexLock lock(&mutex_);
    done_.push_back(std::move(out));
    if (done_.size() > 1) return;  // It is awake.
  }
  wake_();
}

void ThreadedCore::SayWhomItWaitsFor(Time now) {
  if (now < says_next_) return;
  says_next_ = now + kSayEvery;
  std::string overdue = core_->overdue(now);
  const MutexLock lock(&mutex_);
  overdue_ = std::move(overdue);
}

}  // namespace paramd
