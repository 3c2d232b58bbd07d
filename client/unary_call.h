#ifndef PARAMD_CLIENT_UNARY_CALL_H_
#define PARAMD_CLIENT_UNARY_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "net/method_table.h"

namespace paramd {

// A call of a method of services.proto from outside of the cluster. Not
// thread-safe. What it was made with outlives it, and it outlives its time in
// the queue.
template <typename Request, typename Reply>
class UnaryCall {
 public:
  UnaryCall(std::shared_ptr<grpc::Channel> channel, absl::Time deadline)
      : stub_(std::move(channel)) {
    context_.set_deadline(absl::ToChronoTime(deadline));
  }

  void AddMetadata(const char* key, const std::string& value) {
    context_.AddMetadata(key, value);
  }
  // Sends it. It comes out of `queue`, with `tag`, when it has ended.
  void Start(const Request& request, grpc::CompletionQueue* queue, void* tag) {
    const Method* const method =
        MethodTable::Get().OfRequest(Request::descriptor());
    reader_ = stub_.PrepareUnaryCall(&context_, method->path, request, queue);
    reader_->StartCall();
    reader_->Finish(&reply_, &status_, tag);
  }
  // The same, and waits for its end.
  const grpc::Status& Do(const Request& request) {
    grpc::CompletionQueue queue;
    Start(request, &queue, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    queue.Shutdown();
    return status_;
  }
  void Cancel() { context_.TryCancel(); }

  // Once it has ended.
  const grpc::Status& status() const { return status_; }
  Reply& reply() { return reply_; }

 private:
  grpc::TemplatedGenericStub<Request, Reply> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader_;
  Reply reply_;
  grpc::Status status_;
};

}  // namespace paramd

#endif  // PARAMD_CLIENT_UNARY_CALL_H_
