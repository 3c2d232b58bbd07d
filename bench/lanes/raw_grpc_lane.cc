#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/byte_buffer.h"

#include "base/check.h"
#include "base/clock.h"
#include "bench/lanes/lane.h"
#include "net/keep_memory.h"
#include "net/testing/certificates.h"
#include "net/testing/loopback_address.h"

namespace paramd {
namespace {

constexpr char kPush[] = "/raw/Push";
constexpr char kPull[] = "/raw/Pull";
constexpr int kMostBytes = 8 << 20;
constexpr char kJob[] = "raw";
constexpr char kTask[] = "ps-0";

// A message of memory that stays as it is; no byte is copied.
grpc::ByteBuffer MessageOf(char* bytes, size_t size) {
  const grpc::Slice slice(
      bytes, size, [](void*) {}, nullptr);
  return grpc::ByteBuffer(&slice, 1);
}

// What is due when an operation of a queue has ended.
using Step = std::function<void(bool ok)>;

// One call after the other of the server's: the chunk is dropped, or sent.
class Slot {
 public:
  Slot(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue,
       std::vector<char>* memory)
      : service_(service), queue_(queue), memory_(memory) {
    Expect();
  }

 private:
  void Expect() {
    context_ = std::make_unique<grpc::GenericServerContext>();
    stream_ =
        std::make_unique<grpc::GenericServerAsyncReaderWriter>(context_.get());
    step_ = [this](bool ok) {
      if (ok) Read();
    };
    service_->RequestCall(context_.get(), stream_.get(), queue_, queue_,
                          &step_);
  }
  void Read() {
    step_ = [this](bool) { Answer(); };
    stream_->Read(&request_, &step_);
  }
  void Answer() {
    char* const bytes = memory_->data();
    const grpc::ByteBuffer answer = context_->method() == kPush
                                        ? MessageOf(bytes, 16)
                                        : MessageOf(bytes, WantedBytes());
    step_ = [this](bool) {
      request_.Clear();
      Expect();
    };
    stream_->WriteAndFinish(answer, grpc::WriteOptions(), grpc::Status::OK,
                            &step_);
  }
  // A pull's request is eight bytes: how many it wants.
  size_t WantedBytes() const {
    grpc::Slice slice;
    CHECK(request_.DumpToSingleSlice(&slice).ok() && slice.size() == 8,
          "a pull says how many bytes it wants");
    uint64_t wanted;
    std::memcpy(&wanted, slice.begin(), sizeof(wanted));
    return wanted;
  }

  grpc::AsyncGenericService* const service_;
  grpc::ServerCompletionQueue* const queue_;
  std::vector<char>* const memory_;
  std::unique_ptr<grpc::GenericServerContext> context_;
  std::unique_ptr<grpc::GenericServerAsyncReaderWriter> stream_;
  grpc::ByteBuffer request_;
  Step step_;
};

// What it takes to be an end of the lane: insecure, or mutual TLS.
struct Credentials {
  std::shared_ptr<grpc::ServerCredentials> server =
      grpc::InsecureServerCredentials();
  std::shared_ptr<grpc::ChannelCredentials> client =
      grpc::InsecureChannelCredentials();
};

Credentials CredentialsOf(const std::string& tls_directory) {
  if (tls_directory.empty()) return {};
  // Both ends show one certificate.
  const auto tls = TlsOf(tls_directory, kJob, kTask);
  return {tls->ServerCredentials(), tls->CredentialsFor(tls->self())};
}

[[noreturn]] void ServeRaw(const std::string& address,
                           const Credentials& credentials) {
  KeepMemory();
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, credentials.server);
  builder.RegisterAsyncGenericService(&service);
  builder.SetMaxReceiveMessageSize(kMostBytes);
  const std::unique_ptr<grpc::ServerCompletionQueue> queue =
      builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  CHECK(server != nullptr, "gRPC listens");
  std::vector<char> memory(kChunkBytes);
  std::vector<std::unique_ptr<Slot>> slots;
  for (int i = 0; i < 2 * kMostUnderWay; ++i) {
    slots.push_back(std::make_unique<Slot>(&service, queue.get(), &memory));
  }
  void* tag;
  bool ok;
  while (queue->Next(&tag, &ok)) (*static_cast<Step*>(tag))(ok);
  std::abort();
}

// Moves memory in chunks, kCallsUnderWay of them at once.
class RawClient {
 public:
  RawClient(const std::string& address, const Credentials& credentials,
            uint64_t bytes)
      : stub_(MakeChannel(address, credentials)), memory_(bytes) {}

  void Move(Transfer transfer) {
    uint64_t begin = 0;
    int under_way = 0;
    while (begin < memory_.size() || under_way > 0) {
      while (begin < memory_.size() && under_way < kCallsUnderWay) {
        const uint64_t size =
            std::min<uint64_t>(kChunkBytes, memory_.size() - begin);
        Send(transfer, begin, size);
        begin += size;
        ++under_way;
      }
      void* tag;
      bool ok;
      CHECK(queue_.Next(&tag, &ok) && ok, "a call ends");
      TakeIn(static_cast<Call*>(tag), transfer);
      --under_way;
    }
  }

  // Empty answers, `most` under way at once; how long each took.
  std::vector<double> CallEmpty(int times, int most) {
    std::vector<double> seconds;
    int sent = 0;
    while (static_cast<int>(seconds.size()) < times) {
      while (sent < times && sent - static_cast<int>(seconds.size()) < most) {
        Send(Transfer::kPull, 0, 0);
        ++sent;
      }
      void* tag;
      bool ok;
      CHECK(queue_.Next(&tag, &ok) && ok, "a call ends");
      const Time sent_at = static_cast<Call*>(tag)->sent;
      TakeIn(static_cast<Call*>(tag), Transfer::kPull);
      seconds.push_back(absl::ToDoubleSeconds(MonotonicNow() - sent_at));
    }
    return seconds;
  }

 private:
  struct Call {
    uint64_t begin = 0;
    uint64_t size = 0;
    Time sent = MonotonicNow();
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
    grpc::ByteBuffer answer;
    grpc::Status status;
  };

  static std::shared_ptr<grpc::Channel> MakeChannel(
      const std::string& address, const Credentials& credentials) {
    grpc::ChannelArguments args;
    args.SetMaxReceiveMessageSize(kMostBytes);
    return grpc::CreateCustomChannel(address, credentials.client, args);
  }
  void Send(Transfer transfer, uint64_t begin, uint64_t size) {
    auto* const call = new Call;
    call->begin = begin;
    call->size = size;
    call->context.set_wait_for_ready(true);
    const bool push = transfer == Transfer::kPush;
    const grpc::ByteBuffer request =
        push ? MessageOf(memory_.data() + begin, size) : Wanted(size);
    call->reader = stub_.PrepareUnaryCall(&call->context, push ? kPush : kPull,
                                          request, &queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, call);
  }
  static grpc::ByteBuffer Wanted(uint64_t size) {
    const grpc::Slice slice(&size, sizeof(size));
    return grpc::ByteBuffer(&slice, 1);
  }
  void TakeIn(Call* ended, Transfer transfer) {
    const std::unique_ptr<Call> call(ended);
    CHECK(call->status.ok(), call->status.error_message());
    if (transfer == Transfer::kPush) return;
    CHECK(call->answer.Length() == call->size, "all wanted bytes come");
    std::vector<grpc::Slice> slices;
    CHECK(call->answer.Dump(&slices).ok(), "the answer can be read");
    char* out = memory_.data() + call->begin;
    for (const grpc::Slice& slice : slices) {
      std::memcpy(out, slice.begin(), slice.size());
      out += slice.size();
    }
  }

  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::vector<char> memory_;
};

}  // namespace

std::unique_ptr<Lane> MakeRawGrpcLane(uint64_t bytes, bool tls) {
  const std::string address = absl::StrCat(DrawLoopbackHost(), ":2222");
  const std::string tls_directory =
      tls ? CertificateDirectory(MakeAuthority(kJob), kJob, kTask) : "";
  auto server =
      std::make_unique<Child>("raw-grpc-server", [&]() -> Child::Serve {
        ServeRaw(address, CredentialsOf(tls_directory));
      });
  auto client =
      std::make_unique<Child>("raw-grpc-client", [&]() -> Child::Serve {
        KeepMemory();
        auto raw = std::make_shared<RawClient>(
            address, CredentialsOf(tls_directory), bytes);
        return [raw](const std::string& line) {
          const MoveRequest request = ParseMoveRequest(line);
          std::vector<double> seconds;
          const Time start = MonotonicNow();
          if (request.transfer == Transfer::kSmall) {
            seconds = raw->CallEmpty(request.times, request.under_way);
          }
          while (static_cast<int>(seconds.size()) < request.times) {
            const Time begin = MonotonicNow();
            if (request.transfer != Transfer::kPush) raw->Move(Transfer::kPull);
            if (request.transfer != Transfer::kPull) raw->Move(Transfer::kPush);
            seconds.push_back(absl::ToDoubleSeconds(MonotonicNow() - begin));
          }
          return MovedLine(absl::ToDoubleSeconds(MonotonicNow() - start),
                           seconds);
        };
      });
  return std::make_unique<Lane>(tls ? "raw gRPC, TLS" : "raw gRPC",
                                std::move(server), std::move(client));
}

}  // namespace paramd
