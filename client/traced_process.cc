#include "client/traced_process.h"

#include "absl/time/clock.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "client/unary_call.h"
#include "net/caller.h"
#include "net/grpc_status.h"
#include "proto/paramd/v1/control.pb.h"

namespace paramd {
namespace {

template <typename Request, typename Reply>
absl::StatusOr<Reply> CallOnce(const OperatorConnection& process,
                               const Request& request, absl::Duration timeout) {
  UnaryCall<Request, Reply> call(process.channel, absl::Now() + timeout);
  call.AddMetadata(kCallerKey, process.caller);
  const absl::Status status = FromGrpcStatus(call.Do(request));
  if (!status.ok()) return Unreached(process, status);
  return std::move(call.reply());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TracedProcess>> TracedProcess::Connect(
    const ChiefAddress& process) {
  ASSIGN_OR_RETURN(OperatorConnection connection, ConnectToAny(process));
  return std::unique_ptr<TracedProcess>(
      new TracedProcess(std::move(connection)));
}

absl::StatusOr<v1::StatusReply> TracedProcess::Status(absl::Duration timeout) {
  return CallOnce<v1::StatusRequest, v1::StatusReply>(
      connection_, v1::StatusRequest(), timeout);
}

absl::StatusOr<v1::Layout> TracedProcess::Layout(absl::Duration timeout) {
  ASSIGN_OR_RETURN(
      v1::GetConfigurationReply reply,
      (CallOnce<v1::GetConfigurationRequest, v1::GetConfigurationReply>(
          connection_, v1::GetConfigurationRequest(), timeout)));
  return std::move(*reply.mutable_configuration()->mutable_layout());
}

absl::StatusOr<TracedProcess::Answer> TracedProcess::Trace(
    const v1::TraceRequest& request, absl::Duration timeout) {
  Answer answer;
  answer.sent = MonotonicNow();
  ASSIGN_OR_RETURN(answer.reply, (CallOnce<v1::TraceRequest, v1::TraceReply>(
                                     connection_, request, timeout)));
  answer.received = MonotonicNow();
  return answer;
}

}  // namespace paramd
