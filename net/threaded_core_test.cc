#include "net/threaded_core.h"

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "net/in_process_runtime.h"
#include "net/testing/toy_core.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/status.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::Duration kLongDrain = absl::Seconds(60);

// Answers a StatusRequest with how many it has had, once its work outside is
// done; a StopRequest ends it. All on one thread that is not the runtime's.
class Counting : public Core {
 public:
  void Start(Time, Outbox* out) override {
    thread_ = std::this_thread::get_id();
    out->Note("started");
  }
  void Receive(Message message, Time now, Outbox* out) override {
    CheckThread();
    if (message.head->GetDescriptor() == v1::StopRequest::descriptor()) {
      out->Reply(message.call, std::make_unique<v1::StopReply>());
      out->Exit(absl::OkStatus());
      return;
    }
    payload_ = message.payload;
    call_ = message.call;
    tick_ = now + absl::Milliseconds(1);
  }
  // The tick starts the work.
  void Tick(Time now, Outbox* out) override {
    CheckThread();
    if (now < tick_) return;
    tick_ = Time::Never();
    out->StartIo(7, std::make_unique<v1::StatusRequest>(), payload_);
  }
  Time next_tick() const override { return tick_; }
  void Completed(IoResult result, Time, Outbox* out) override {
    CheckThread();
    EXPECT_EQ(result.io, 7u);
    auto reply = std::make_unique<v1::StatusReply>();
    reply->set_incarnation(++count_);
    out->Reply(call_, std::move(reply), std::move(result.payload));
  }
  std::string overdue(Time) const override { return "somebody"; }

  int count() const { return count_; }
  std::thread::id thread() const { return thread_; }

 private:
  void CheckThread() const { EXPECT_EQ(std::this_thread::get_id(), thread_); }

  std::thread::id thread_;
  int count_ = 0;
  CallId call_ = 0;
  BufferChain payload_;
  Time tick_ = Time::Never();
};

Buffer Bytes(const std::string& text) {
  Buffer buffer = Buffer::Allocate(text.size());
  std::memcpy(buffer.mutable_bytes().data(), text.data(), text.size());
  return buffer;
}

// Asks so often, one call after the other, then stops the server.
class Asking : public Core {
 public:
  explicit Asking(int times) : left_(times) {}
  void Start(Time, Outbox* out) override { Next(out); }
  void Receive(Message message, Time, Outbox* out) override {
    EXPECT_TRUE(message.status.ok()) << message.status;
    if (left_ < 0) return out->Exit(absl::OkStatus());
    const auto& reply = static_cast<const v1::StatusReply&>(*message.head);
    EXPECT_EQ(reply.incarnation(), ++answered_);
    EXPECT_EQ(ChainSize(message.payload), 5u);
    Next(out);
  }
  void Completed(IoResult, Time, Outbox*) override {}
  void Tick(Time, Outbox*) override {}
  Time next_tick() const override { return Time::Never(); }

  uint64_t answered() const { return answered_; }

 private:
  void Next(Outbox* out) {
    if (left_-- == 0) {
      out->Send(PeerId::Ps(0), 1, std::make_unique<v1::StopRequest>(), {},
                kLongDrain);
      return;
    }
    BufferChain payload;
    payload.push_back(Bytes("12345"));
    out->Send(PeerId::Ps(0), 1, std::make_unique<v1::StatusRequest>(), payload,
              kLongDrain);
  }

  int left_;
  uint64_t answered_ = 0;
};

// Gives back what it was given.
void Echo(Outbox::IoItem item, Runtime::IoDone done) {
  IoResult result;
  result.payload = std::move(item.payload);
  done(std::move(result));
}

TEST(ThreadedCoreTest, ACoreDoesOnItsThreadWhatItWouldDoOnTheRuntimes) {
  Counting core;
  Asking asking(/*times=*/100);
  const std::unique_ptr<Runtime> runtime = MakeInProcessRuntime();
  ThreadedCore threaded("counting", &core, runtime->Waker());
  threaded.HandleIo(v1::StatusRequest::descriptor(), Echo);
  runtime->AddCore(PeerId::Ps(0), &threaded);
  runtime->AddCore(PeerId::Worker(0), &asking);
  EXPECT_TRUE(runtime->Run().ok());
  EXPECT_EQ(asking.answered(), 100u);
  int seen = 0;
  std::thread::id looked_on;
  threaded.Look([&] {
    seen = core.count();
    looked_on = std::this_thread::get_id();
  });
  EXPECT_EQ(seen, 100);
  EXPECT_EQ(looked_on, core.thread());
  EXPECT_NE(looked_on, std::this_thread::get_id());
}

TEST(ThreadedCoreTest, WorkThatItDoesNotHandleGoesToTheRuntime) {
  Counting core;
  Asking asking(/*times=*/3);
  const std::unique_ptr<Runtime> runtime = MakeInProcessRuntime();
  ThreadedCore threaded("counting", &core, runtime->Waker());
  runtime->HandleIo(v1::StatusRequest::descriptor(), Echo);
  runtime->AddCore(PeerId::Ps(0), &threaded);
  runtime->AddCore(PeerId::Worker(0), &asking);
  EXPECT_TRUE(runtime->Run().ok());
  EXPECT_EQ(asking.answered(), 3u);
}

TEST(ThreadedCoreTest, ItsWaitsAndItsDrainAreTheCores) {
  Counting core;
  const std::unique_ptr<Runtime> runtime = MakeInProcessRuntime();
  ThreadedCore threaded("counting", &core, runtime->Waker());
  EXPECT_EQ(threaded.overdue(Time()), "");  // It has not started.
  runtime->AddCore(PeerId::Ps(0), &threaded);
  runtime->Drain(absl::CancelledError("drained"), kLongDrain);
  EXPECT_EQ(runtime->Run(), absl::CancelledError("drained"));
}

TEST(ThreadedCoreTest, WorkThatEndsBehindItsEndIsDropped) {
  Counting core;
  Runtime::IoDone late;
  {
    Asking asking(/*times=*/1);
    const std::unique_ptr<Runtime> runtime = MakeInProcessRuntime();
    ThreadedCore threaded("counting", &core, runtime->Waker());
    threaded.HandleIo(v1::StatusRequest::descriptor(),
                      [&](Outbox::IoItem item, Runtime::IoDone done) {
                        late = done;
                        Echo(std::move(item), std::move(done));
                      });
    runtime->AddCore(PeerId::Ps(0), &threaded);
    runtime->AddCore(PeerId::Worker(0), &asking);
    EXPECT_TRUE(runtime->Run().ok());
  }
  late(IoResult());
  EXPECT_EQ(core.count(), 1);
}

v1::PullRequest& SomeRequest() {
  static auto* const request = new v1::PullRequest();
  return *request;
}

Message RequestOf(CallId call) {
  Message message;
  message.from = PeerId::Worker(1);
  message.call = call;
  message.head = &SomeRequest();
  return message;
}

// A core whose thread is busy with request 1 until Finish.
class ThreadedCoreQueueTest : public ::testing::Test {
 protected:
  ThreadedCoreQueueTest() {
    core_.on_receive = [this](Message message, Time, Outbox*) {
      if (message.call == kLast) return last_->set_value();
      received_.push_back(message.call);
      if (message.call != 1) return;
      busy_.set_value();
      release_.get_future().wait();
    };
    Outbox out;
    threaded_.Start(Time(), &out);
    EXPECT_TRUE(Give(1));
    busy_.get_future().wait();
  }
  // Whether it was taken; what it was told if not.
  bool Give(CallId call) {
    Outbox out;
    threaded_.Receive(RequestOf(call), Time(), &out);
    if (out.replies.empty()) return true;
    EXPECT_EQ(out.replies[0].call, call);
    refusal_ = out.replies[0].status;
    return false;
  }
  // Lets the core go on until it has done all it was given.
  void Finish() {
    release_.set_value();
    WaitForAll();
  }
  void WaitForAll() {
    std::promise<void> last;
    last_ = &last;
    while (!Give(kLast)) std::this_thread::yield();
    last.get_future().wait();
    threaded_.Look([] {});  // It is out of that request, too.
  }

  static constexpr CallId kLast = 1 << 20;

  ToyCore core_;
  std::promise<void> busy_, release_;
  std::promise<void>* last_ = nullptr;  // Of request kLast.
  std::vector<CallId> received_;        // Of the core's thread but for Look.
  absl::Status refusal_;
  ThreadedCore threaded_{"toy", &core_, [] {}};
};

TEST_F(ThreadedCoreQueueTest, WhatIsWithdrawnDoesNotReachTheCore) {
  EXPECT_TRUE(Give(2));
  EXPECT_TRUE(Give(3));
  threaded_.Withdraw(2);
  threaded_.Withdraw(1);  // Too late.
  threaded_.Withdraw(9);  // Nobody's.
  Finish();
  EXPECT_EQ(received_, (std::vector<CallId>{1, 3}));
}

TEST_F(ThreadedCoreQueueTest, WhoLooksDoesNotWaitForWhatIsQueued) {
  EXPECT_TRUE(Give(2));
  EXPECT_TRUE(Give(3));
  std::vector<CallId> seen;
  std::thread looking([&] { threaded_.Look([&] { seen = received_; }); });
  while (!threaded_.LookWaitsForTest()) std::this_thread::yield();
  Finish();
  looking.join();
  EXPECT_EQ(seen, (std::vector<CallId>{1}));
  EXPECT_EQ(received_, (std::vector<CallId>{1, 2, 3}));
}

TEST_F(ThreadedCoreQueueTest, Promise8_WhatIsQueuedCountsAlsoIfNobodyWaits) {
  for (CallId call = 2; call <= 16385; ++call) {
    ASSERT_TRUE(Give(call)) << call;
    threaded_.Withdraw(call);
  }
  EXPECT_FALSE(Give(16386));
  EXPECT_EQ(refusal_.message(), "16384 requests wait for the thread of toy");
  EXPECT_EQ(RefusalOf(refusal_).reason(), v1::Refusal::OVER_LIMIT);
  Finish();
  EXPECT_TRUE(Give(16387));
  WaitForAll();
  EXPECT_EQ(received_, (std::vector<CallId>{1, 16387}));
}

}  // namespace
}  // namespace paramd
