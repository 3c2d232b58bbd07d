#include "cli/operator_client.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "base/status_macros.h"
#include "net/caller.h"
#include "net/grpc_status.h"
#include "net/operator_socket.h"
#include "net/unreached.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

using GenericStub = grpc::TemplatedGenericStub<v1::SetRequest, v1::SetReply>;

constexpr char kMethod[] = "/paramd.v1.Coordinator/Set";
constexpr absl::Duration kShortestWait = absl::Milliseconds(50);

absl::Status CallOnce(GenericStub* stub, const v1::SetRequest& request,
                      absl::Time deadline, v1::SetReply* reply) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(deadline));
  context.AddMetadata(kCallerKey, "operator/0");
  grpc::CompletionQueue queue;
  const auto reader = stub->PrepareUnaryCall(&context, kMethod, request, &queue);
  reader->StartCall();
  grpc::Status status;
  reader->Finish(reply, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  queue.Shutdown();
  return FromGrpcStatus(status);
}

// What is said of a call that had no answer of a process.
absl::Status Unreached(const std::string& where, const Tls* tls,
                       const absl::Status& status) {
  if (status.ok() ||
      RefusalOf(status).reason() != v1::Refusal::REASON_UNSPECIFIED) {
    return status;
  }
  std::string why = absl::IsDeadlineExceeded(status) ? "no answer in time" : "";
  if (why.empty() && tls != nullptr) why = tls->WhyFailed(status.message());
  if (why.empty()) why = WhyUnreached(status.message());
  return absl::UnavailableError(
      absl::StrCat("the chief at '", where, "' can't be reached: ", why));
}

// Again where that may help. `tls` explains a failure; it may be null.
absl::StatusOr<v1::SetReply> CallUntil(absl::Time deadline, GenericStub* stub,
                                       const std::string& where,
                                       const Tls* tls,
                                       const v1::SetRequest& request) {
  v1::SetReply reply;
  for (;;) {
    const absl::Status status = CallOnce(stub, request, deadline, &reply);
    if (status.ok()) return reply;
    const v1::Refusal refusal = RefusalOf(status);
    const absl::Duration wait = std::max(
        kShortestWait, absl::Milliseconds(refusal.retry_after_ms()));
    if (refusal.reason() != v1::Refusal::RETRY ||
        absl::Now() + wait >= deadline) {
      return Unreached(where, tls, status);
    }
    absl::SleepFor(wait);
  }
}

}  // namespace

std::string ChiefSocket(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/worker-0.sock");
}

absl::StatusOr<std::string> OnlyChiefSocket(const std::string& root) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root, error)) {
    const std::string run_dir = entry.path().string();
    const auto address = OperatorAddress::Of(ChiefSocket(run_dir));
    if (address.ok() && (*address)->IsAlive()) found.push_back(run_dir);
  }
  std::sort(found.begin(), found.end());
  if (found.size() == 1) return ChiefSocket(found[0]);
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no run under '", root, "' has a chief that listens here: "
                     "name the run's directory with --run_dir"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("several runs have a chief: ", absl::StrJoin(found, ", "),
                   "; name one with --run_dir"));
}

absl::StatusOr<v1::SetReply> CallSet(const std::string& socket,
                                     const v1::SetRequest& request,
                                     absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  ASSIGN_OR_RETURN(const auto address, OperatorAddress::Of(socket));
  GenericStub stub(grpc::CreateChannel(address->target(),
                                       grpc::InsecureChannelCredentials()));
  return CallUntil(deadline, &stub, socket, nullptr, request);
}

absl::StatusOr<std::shared_ptr<const Tls>> OperatorTls(
    const std::string& directory) {
  if (directory.empty()) return std::shared_ptr<const Tls>();
  ASSIGN_OR_RETURN(std::shared_ptr<const Tls> tls,
                   Tls::MakeOperator(directory));
  return tls;
}

absl::StatusOr<v1::SetReply> CallSetAt(const std::string& address,
                                       const Tls& tls,
                                       const v1::SetRequest& request,
                                       absl::Duration timeout) {
  const CertifiedName chief = {tls.self().job, CertifiedName::Role::kWorker, 0};
  GenericStub stub(grpc::CreateChannel(absl::StrCat("dns:///", address),
                                       tls.CredentialsFor(chief)));
  return CallUntil(absl::Now() + timeout, &stub, address, &tls, request);
}

}  // namespace paramd
