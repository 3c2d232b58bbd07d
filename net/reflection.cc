#include "net/reflection.h"

#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.pb.h"

#include "net/wire_message.h"
#include "proto/grpc/reflection/v1/reflection.pb.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptor;
using google::protobuf::FileDescriptorProto;
using google::protobuf::ServiceDescriptor;
using grpc::reflection::v1::FileDescriptorResponse;
// Those of v1alpha are the same on the wire.
using grpc::reflection::v1::ServerReflectionRequest;
using grpc::reflection::v1::ServerReflectionResponse;

constexpr size_t kMostRequestBytes = 1024;

const ServiceDescriptor* ServiceBeside(
    const google::protobuf::Descriptor* message) {
  return message->file()->service(0);
}

// `file`, then what it imports, each once.
void AddFiles(const FileDescriptor* file,
              absl::flat_hash_set<const FileDescriptor*>* added,
              FileDescriptorResponse* response) {
  if (!added->insert(file).second) return;
  FileDescriptorProto described;
  file->CopyTo(&described);
  response->add_file_descriptor_proto(described.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) {
    AddFiles(file->dependency(i), added, response);
  }
}

void SetError(const absl::Status& status, ServerReflectionResponse* response) {
  auto* const error = response->mutable_error_response();
  error->set_error_code(static_cast<int>(status.code()));
  error->set_error_message(std::string(status.message()));
}

void SetFile(const FileDescriptor* file, const std::string& asked,
             ServerReflectionResponse* response) {
  if (file == nullptr) {
    SetError(absl::NotFoundError(absl::StrCat("there is no '", asked, "'")),
             response);
    return;
  }
  absl::flat_hash_set<const FileDescriptor*> added;
  AddFiles(file, &added, response->mutable_file_descriptor_response());
}

}  // namespace

class Reflection::Call : public StreamHandler {
 public:
  Call(const Reflection* reflection, Stream* stream)
      : reflection_(reflection), stream_(stream) {}

  void Received(const grpc::ByteBuffer& message) override {
    if (message.Length() > kMostRequestBytes) {
      stream_->Finish(
          Refuse(v1::Refusal::OVER_LIMIT, "ServerReflectionRequest",
                 absl::StrCat("a request of ", message.Length(),
                              " bytes; the limit is ", kMostRequestBytes)));
      return;
    }
    const auto decoded =
        DecodeMessage(message, ServerReflectionRequest::default_instance());
    if (!decoded.ok()) {
      stream_->Finish(decoded.status());
      return;
    }
    stream_->Write(
        Answer(static_cast<const ServerReflectionRequest&>(*decoded->head)));
  }
  void HalfClosed() override { stream_->Finish(absl::OkStatus()); }

 private:
  ServerReflectionResponse Answer(
      const ServerReflectionRequest& request) const {
    ServerReflectionResponse response;
    response.set_valid_host(request.host());
    *response.mutable_original_request() = request;
    const DescriptorPool* const pool = DescriptorPool::generated_pool();
    switch (request.message_request_case()) {
      case ServerReflectionRequest::kListServices:
        for (const std::string& name : reflection_->Services()) {
          response.mutable_list_services_response()->add_service()->set_name(
              name);
        }
        break;
      case ServerReflectionRequest::kFileByFilename:
        SetFile(pool->FindFileByName(request.file_by_filename()),
                request.file_by_filename(), &response);
        break;
      case ServerReflectionRequest::kFileContainingSymbol:
        SetFile(
            pool->FindFileContainingSymbol(request.file_containing_symbol()),
            request.file_containing_symbol(), &response);
        break;
      default:
        SetError(absl::UnimplementedError(
                     "only services, files and symbols are looked up"),
                 &response);
    }
    return response;
  }

  const Reflection* const reflection_;
  Stream* const stream_;
};

Reflection::Reflection(std::vector<const FileDescriptor*> files,
                       IsServed is_served)
    : files_(std::move(files)), is_served_(std::move(is_served)) {}

void Reflection::AddTo(StreamServer* server) {
  using V1Alpha = grpc::reflection::v1alpha::ServerReflectionRequest;
  for (const auto* message :
       {ServerReflectionRequest::descriptor(), V1Alpha::descriptor()}) {
    const ServiceDescriptor* const service = ServiceBeside(message);
    files_.push_back(service->file());
    server->Serve(absl::StrCat("/", service->full_name(), "/",
                               service->method(0)->name()),
                  [this](Stream* stream) {
                    return std::make_unique<Call>(this, stream);
                  });
  }
}

std::vector<std::string> Reflection::Services() const {
  std::vector<std::string> names;
  for (const FileDescriptor* file : files_) {
    for (int i = 0; i < file->service_count(); ++i) {
      if (!is_served_(file->service(i))) continue;
      names.push_back(file->service(i)->full_name());
    }
  }
  return names;
}

}  // namespace paramd
