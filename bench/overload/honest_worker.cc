#include "bench/overload/honest_worker.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
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
#include "net/grpc_status.h"
#include "net/keep_memory.h"
#include "net/wire_message.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr uint32_t kWorker = 0;
constexpr uint32_t kCallsOfAStep = 4;
constexpr absl::Duration kLeastPause = absl::Milliseconds(10);

class Steps {
 public:
  explicit Steps(const std::string& address) : gradient_(Gradient()) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments);
  }

  std::string Make(int times) {
    Samples seconds;
    for (int i = 0; i < times; ++i) {
      const Time begin = MonotonicNow();
      ++sequence_;
      All(kPull, [](uint32_t block) {
        return EncodeMessage(PullOf(block, /*count=*/1), {});
      });
      All(kPush, [this](uint32_t block) {
        return EncodeMessage(PushOf(kWorker, sequence_, block), {gradient_});
      });
      seconds.Add(absl::ToDoubleSeconds(MonotonicNow() - begin));
    }
    return absl::StrCat(seconds.Median(), " ", seconds.Quantile(0.99));
  }

 private:
  struct Call {
    uint32_t block = 0;
    grpc::ClientContext context;
    grpc::ByteBuffer reply;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> reader;
  };

  // Makes a call for each block of the step, until each has been answered.
  template <typename MakeRequest>
  void All(const char* method, const MakeRequest& make) {
    std::vector<uint32_t> left;
    for (uint32_t block = 0; block < kCallsOfAStep; ++block) {
      left.push_back(block);
    }
    while (!left.empty()) {
      for (const uint32_t block : left) Send(method, block, make(block));
      absl::Duration pause = kLeastPause;
      const size_t count = left.size();
      left.clear();
      for (size_t i = 0; i < count; ++i) {
        const std::unique_ptr<Call> call = Take();
        if (call->status.ok()) continue;
        const absl::Status status = FromGrpcStatus(call->status);
        CHECK(absl::IsUnavailable(status) ||
                  absl::IsResourceExhausted(status) ||
                  absl::IsDeadlineExceeded(status),
              status.message());
        pause = std::max(pause, absl::Milliseconds(static_cast<int64_t>(
                                    RefusalOf(status).retry_after_ms())));
        left.push_back(call->block);
      }
      if (!left.empty()) absl::SleepFor(pause);
    }
  }

  void Send(const char* method, uint32_t block,
            const grpc::ByteBuffer& request) {
    // Its own until it comes out of the queue.
    auto* const call = new Call;
    call->block = block;
    call->context.set_deadline(std::chrono::system_clock::now() +
                               std::chrono::seconds(10));
    call->context.AddMetadata(kCallerKey, absl::StrCat("worker/", kWorker));
    grpc::GenericStub stub(channel_);
    call->reader =
        stub.PrepareUnaryCall(&call->context, method, request, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call);
  }

  std::unique_ptr<Call> Take() {
    void* tag;
    bool ok;
    CHECK(queue_.Next(&tag, &ok), "the queue has an answer for each call");
    return std::unique_ptr<Call>(static_cast<Call*>(tag));
  }

  const Buffer gradient_;
  std::shared_ptr<grpc::Channel> channel_;
  grpc::CompletionQueue queue_;
  uint64_t sequence_ = 0;
};

}  // namespace

HonestWorker::HonestWorker(const std::string& address)
    : child_("paramd-honest", [&]() -> Child::Serve {
        (void)PlaceClients();
        KeepMemory();
        ConfigureServer(address);
        auto steps = std::make_shared<Steps>(address);
        return [steps](const std::string& line) {
          return steps->Make(std::stoi(line));
        };
      }) {}

HonestWorker::Figures HonestWorker::Step(int times) {
  std::istringstream answer(child_.Call(absl::StrCat(times)));
  Figures figures;
  answer >> figures.p50_seconds >> figures.p99_seconds;
  CHECK(!answer.fail(), "a worker answers two numbers");
  return figures;
}

}  // namespace paramd
