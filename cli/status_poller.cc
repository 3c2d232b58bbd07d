#include "cli/status_poller.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <memory>
#include <utility>

namespace paramd {
namespace {

using Stub = grpc::TemplatedGenericStub<v1::StatusRequest, v1::StatusReply>;

constexpr char kMethod[] = "/paramd.v1.Control/Status";

std::unique_ptr<Stub> MakeStub(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A process that is restarted is heard again within a second or so.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return std::make_unique<Stub>(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

struct Question {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StatusReply>> reader;
  v1::StatusReply reply;
  grpc::Status status;
};

// Asks all and waits until each has answered or `deadline` has passed for it.
std::vector<std::unique_ptr<Question>> AskAll(
    const std::vector<std::unique_ptr<Stub>>& stubs, absl::Duration deadline) {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Question>> questions;
  for (const auto& stub : stubs) {
    auto question = std::make_unique<Question>();
    question->context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    // A call that fails at once would leave nobody polling, and a connection
    // that is being made would not get on until the next question.
    question->context.set_wait_for_ready(true);
    question->reader = stub->PrepareUnaryCall(&question->context, kMethod,
                                              v1::StatusRequest(), &queue);
    question->reader->StartCall();
    question->reader->Finish(&question->reply, &question->status,
                             question.get());
    questions.push_back(std::move(question));
  }
  void* tag = nullptr;
  bool ok = false;
  for (size_t i = 0; i < questions.size(); ++i) queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  return questions;
}

}  // namespace

StatusPoller::StatusPoller(std::vector<std::string> addresses,
                           absl::Duration period)
    : addresses_(std::move(addresses)),
      period_(period),
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
  std::vector<std::unique_ptr<Stub>> stubs;
  for (const std::string& address : addresses_) {
    stubs.push_back(MakeStub(address));
  }
  while (true) {
    const absl::Time next = absl::Now() + period_;
    auto questions = AskAll(stubs, period_);
    MutexLock lock(&mutex_);
    for (size_t i = 0; i < questions.size(); ++i) {
      answers_[i].answered_last = questions[i]->status.ok();
      if (questions[i]->status.ok()) {
        answers_[i].newest = std::move(questions[i]->reply);
      }
    }
    while (!stopped_ && absl::Now() < next) {
      changed_.WaitFor(&mutex_, next - absl::Now());
    }
    if (stopped_) return;
  }
}

}  // namespace paramd
