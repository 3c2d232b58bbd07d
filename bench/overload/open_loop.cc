#include "bench/overload/open_loop.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/channel_arguments.h"

#include "base/check.h"
#include "base/clock.h"
#include "bench/harness/samples.h"
#include "bench/overload/overloaded_server.h"
#include "net/caller.h"
#include "net/descriptors.h"
#include "net/keep_memory.h"
#include "net/wire_message.h"

namespace paramd {
namespace {

constexpr int kPullsOfAWorker = 4;
constexpr uint64_t kPushesForAPull = 3;
// They offer more than one server's CPU can do.
constexpr int kMostThreads = 4;
// More than any machine answers while one looks.
constexpr int kAnswersAtOnce = 256;
constexpr absl::Duration kLong = absl::Seconds(60);

std::chrono::system_clock::time_point In(absl::Duration time) {
  return std::chrono::system_clock::now() +
         std::chrono::microseconds(absl::ToInt64Microseconds(time));
}

std::shared_ptr<grpc::Channel> ConnectionTo(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt("grpc.use_local_subchannel_pool", 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// What an overloaded server may say; anything else is the benchmark's mistake.
bool IsForNow(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
      return true;
    default:
      return false;
  }
}

}  // namespace

struct OpenLoop::Call {
  grpc::ClientContext context;
  grpc::ByteBuffer reply;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
  Worker* worker = nullptr;
  bool is_push = false;
  Time due;
};

OpenLoop::OpenLoop(const std::string& address, uint32_t first, uint32_t count)
    : gradient_(Gradient()) {
  for (uint32_t i = first; i < first + count; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->index = i;
    workers_.back()->channel = ConnectionTo(address);
    may_push_.push_back(workers_.back().get());
  }
  for (int n = 0; n < kPullsOfAWorker; ++n) {
    may_pull_.insert(may_pull_.end(), may_push_.begin(), may_push_.end());
  }
}

Offered OpenLoop::Offer(double rate, absl::Duration length) {
  const Time begin = MonotonicNow();
  counts_from_ = begin + length / 5;
  counts_until_ = begin + length;
  seconds_.clear();
  const auto due_at = [&](uint64_t i) {
    return begin + absl::Seconds(static_cast<double>(i) / rate);
  };
  uint64_t due = 0, sent = 0;
  for (Time now = begin; now < counts_until_; now = MonotonicNow()) {
    for (; due_at(due) <= now; ++due) {
      const bool is_push = due % (kPushesForAPull + 1) < kPushesForAPull;
      if (Begin(is_push, due_at(due))) ++sent;
    }
    TakeOne(due_at(due));
    for (int i = 0; i < kAnswersAtOnce && TakeOne(Time()); ++i) {
    }
  }
  while (open_ > 0) TakeOne(Time::Never());
  const double all = absl::ToDoubleSeconds(length);
  Offered offered;
  offered.due = static_cast<double>(due) / all;
  offered.sent = static_cast<double>(sent) / all;
  offered.good = static_cast<double>(seconds_.size()) /
                 absl::ToDoubleSeconds(counts_until_ - counts_from_);
  offered.seconds = std::exchange(seconds_, {});
  return offered;
}

uint64_t OpenLoop::Settle() {
  counts_until_ = Time();
  uint64_t pushes = 0;
  for (const auto& worker : workers_) {
    while (worker->unacknowledged) {
      may_push_.erase(
          std::find(may_push_.begin(), may_push_.end(), worker.get()));
      Send(worker.get(), /*is_push=*/true, MonotonicNow(), kLong);
      while (open_ > 0) TakeOne(Time::Never());
    }
    pushes += worker->sequence - 1;
  }
  return pushes;
}

bool OpenLoop::Begin(bool is_push, Time due) {
  std::deque<Worker*>& free = is_push ? may_push_ : may_pull_;
  if (free.empty()) return false;
  Worker* const worker = free.front();
  free.pop_front();
  Send(worker, is_push, due, kInTime);
  return true;
}

void OpenLoop::Send(Worker* worker, bool is_push, Time due,
                    absl::Duration patience) {
  // Its own until it comes out of the queue.
  auto* const call = new Call;
  call->worker = worker;
  call->is_push = is_push;
  call->due = due;
  call->context.set_deadline(In(patience));
  call->context.AddMetadata(kCallerKey, absl::StrCat("worker/", worker->index));
  const uint32_t block = worker->index % kBlocks;
  grpc::ByteBuffer request;
  if (is_push) {
    worker->unacknowledged = true;
    request = EncodeMessage(PushOf(worker->index, worker->sequence, block),
                            {gradient_});
  } else {
    request = EncodeMessage(PullOf(block, /*count=*/1), {});
  }
  grpc::GenericStub stub(worker->channel);
  call->reader = stub.PrepareUnaryCall(&call->context, is_push ? kPush : kPull,
                                       request, &queue_);
  call->reader->StartCall();
  call->reader->Finish(&call->reply, &call->status, call);
  ++open_;
}

bool OpenLoop::TakeOne(Time until) {
  const Time now = MonotonicNow();
  const absl::Duration patience =
      std::clamp(until - now, absl::ZeroDuration(), kLong);
  void* tag;
  bool ok;
  if (queue_.AsyncNext(&tag, &ok, In(patience)) !=
      grpc::CompletionQueue::GOT_EVENT) {
    return false;
  }
  const std::unique_ptr<Call> call(static_cast<Call*>(tag));
  --open_;
  Ended(*call);
  return true;
}

void OpenLoop::Ended(const Call& call) {
  Worker* const worker = call.worker;
  (call.is_push ? may_push_ : may_pull_).push_back(worker);
  if (!call.status.ok()) {
    CHECK(IsForNow(call.status), call.status.error_message());
    return;
  }
  if (call.is_push) {
    ++worker->sequence;
    worker->unacknowledged = false;
  }
  const Time now = MonotonicNow();
  const absl::Duration took = now - call.due;
  if (now >= counts_from_ && now < counts_until_ && took <= kInTime) {
    seconds_.push_back(absl::ToDoubleSeconds(took));
  }
}

namespace {

// Loops side by side.
class Loops {
 public:
  Loops(const std::string& address, int threads) {
    const uint32_t count = static_cast<uint32_t>(threads);
    const uint32_t each = kWorkers / count;
    for (uint32_t i = 0; i < count; ++i) {
      loops_.push_back(std::make_unique<OpenLoop>(address, i * each, each));
    }
  }

  // "offer RATE SECONDS", "settle".
  std::string Serve(const std::string& line) {
    std::istringstream words(line);
    std::string what;
    double rate = 0, length = 0;
    words >> what >> rate >> length;
    return what == "offer" ? Offer(rate, absl::Seconds(length)) : Settle();
  }

 private:
  std::string Offer(double rate, absl::Duration length) {
    std::vector<Offered> offered(loops_.size());
    OnEach([&](size_t i) {
      offered[i] =
          loops_[i]->Offer(rate / static_cast<double>(loops_.size()), length);
    });
    Offered all;
    Samples seconds;
    for (const Offered& one : offered) {
      all.due += one.due;
      all.sent += one.sent;
      all.good += one.good;
      for (const double each : one.seconds) seconds.Add(each);
    }
    if (seconds.empty()) seconds.Add(absl::ToDoubleSeconds(kInTime));
    return absl::StrCat(all.due, " ", all.sent, " ", all.good, " ",
                        seconds.Median(), " ", seconds.Quantile(0.99));
  }

  std::string Settle() {
    std::vector<uint64_t> pushes(loops_.size());
    OnEach([&](size_t i) { pushes[i] = loops_[i]->Settle(); });
    uint64_t all = 0;
    for (const uint64_t some : pushes) all += some;
    return absl::StrCat(all);
  }

  void OnEach(const std::function<void(size_t)>& f) const {
    std::vector<std::thread> threads;
    for (size_t i = 0; i < loops_.size(); ++i) threads.emplace_back(f, i);
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<std::unique_ptr<OpenLoop>> loops_;
};

}  // namespace

Load::Load(const std::string& address)
    : child_("paramd-load", [&]() -> Child::Serve {
        const int cpus = PlaceClients();
        KeepMemory();
        RaiseDescriptorLimit();
        ConfigureServer(address);
        auto loops =
            std::make_shared<Loops>(address, std::min(cpus, kMostThreads));
        return [loops](const std::string& line) { return loops->Serve(line); };
      }) {}

Load::Figures Load::Offer(double rate, absl::Duration length) {
  std::istringstream answer(child_.Call(
      absl::StrCat("offer ", rate, " ", absl::ToDoubleSeconds(length))));
  Figures figures;
  answer >> figures.due >> figures.sent >> figures.good >>
      figures.p50_seconds >> figures.p99_seconds;
  CHECK(!answer.fail(), "a load answers five numbers");
  return figures;
}

uint64_t Load::Settle() { return std::stoull(child_.Call("settle")); }

}  // namespace paramd
