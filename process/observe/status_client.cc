#include "process/observe/status_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/message.h"

#include "base/escape.h"
#include "net/outside_channel.h"
#include "net/unreached.h"

namespace paramd {
namespace {

using GenericStub =
    grpc::TemplatedGenericStub<v1::StatusRequest, v1::StatusReply>;

constexpr char kMethod[] = "/paramd.v1.Control/Status";

// Whoever answers is a stranger, and people read it on a terminal.
void EscapeTexts(google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool is_text = field->type() == FieldDescriptor::TYPE_STRING;
    const bool is_message = field->message_type() != nullptr;
    if (!field->is_repeated()) {
      if (is_text) {
        reflection.SetString(message, field,
                             EscapeLine(reflection.GetString(*message, field)));
      }
      if (is_message) EscapeTexts(reflection.MutableMessage(message, field));
      continue;
    }
    const int size = reflection.FieldSize(*message, field);
    for (int i = 0; i < size && is_text; ++i) {
      reflection.SetRepeatedString(
          message, field, i,
          EscapeLine(reflection.GetRepeatedString(*message, field, i)));
    }
    for (int i = 0; i < size && is_message; ++i) {
      EscapeTexts(reflection.MutableRepeatedMessage(message, field, i));
    }
  }
}

struct Question {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientAsyncResponseReader<v1::StatusReply>> reader;
  v1::StatusReply reply;
  grpc::Status status;
};

absl::StatusOr<v1::StatusReply> AnswerTo(Question* question, const Tls* tls,
                                         absl::Duration deadline) {
  const grpc::Status& status = question->status;
  if (status.ok()) {
    EscapeTexts(&question->reply);
    return std::move(question->reply);
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return absl::UnavailableError(
          absl::StrCat("no answer within ", absl::FormatDuration(deadline)));
    case grpc::StatusCode::UNIMPLEMENTED:
      return absl::UnavailableError("not a paramd process");
    case grpc::StatusCode::PERMISSION_DENIED:
      return absl::UnavailableError(EscapeLine(status.error_message()));
    default:
      break;
  }
  const std::string why = tls == nullptr
                              ? WhyFailedWithoutTls(status.error_message())
                              : tls->WhyFailed(status.error_message());
  return absl::UnavailableError(
      EscapeLine(why.empty() ? WhyUnreached(status.error_message()) : why));
}

}  // namespace

struct StatusClient::Stub {
  explicit Stub(std::shared_ptr<grpc::Channel> channel)
      : generic(std::move(channel)) {}
  GenericStub generic;
};

StatusClient::StatusClient(const std::vector<std::string>& addresses,
                           std::shared_ptr<const Tls> tls)
    : tls_(std::move(tls)) {
  const auto credentials = tls_ == nullptr ? grpc::InsecureChannelCredentials()
                                           : tls_->CredentialsForJob();
  for (const std::string& address : addresses) {
    stubs_.push_back(std::make_unique<Stub>(
        OutsideChannel(OutsideTarget(address), credentials)));
  }
}

StatusClient::~StatusClient() = default;

std::vector<absl::StatusOr<v1::StatusReply>> StatusClient::Ask(
    absl::Duration deadline, Patience patience) {
  grpc::CompletionQueue queue;
  std::vector<std::unique_ptr<Question>> questions;
  for (const auto& stub : stubs_) {
    auto question = std::make_unique<Question>();
    question->context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    question->context.set_wait_for_ready(patience == Patience::kKeepTrying);
    question->reader = stub->generic.PrepareUnaryCall(
        &question->context, kMethod, v1::StatusRequest(), &queue);
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
  std::vector<absl::StatusOr<v1::StatusReply>> answers;
  for (const auto& question : questions) {
    answers.push_back(AnswerTo(question.get(), tls_.get(), deadline));
  }
  return answers;
}

}  // namespace paramd
