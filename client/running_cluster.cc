#include "client/running_cluster.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "client/unary_call.h"
#include "net/caller.h"
#include "net/grpc_status.h"
#include "net/unreached.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::string_view kEnded =
    "the job has ended, and its servers with it: its weights are in its last "
    "checkpoint";

std::shared_ptr<grpc::Channel> ChannelTo(
    const std::string& address,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // A process that is restarted is heard again within a second or so.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, kMostBulkBytes);
  // Whoever listens there must not have an answer inflated without bounds.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET,
                   1 << GRPC_COMPRESS_NONE);
  // "dns": gRPC would take "unix:7077" for a file.
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", address),
                                   credentials, arguments);
}

std::shared_ptr<grpc::ChannelCredentials> CredentialsFor(
    const Tls* tls, CertifiedName::Role role, uint32_t index) {
  if (tls == nullptr) return grpc::InsecureChannelCredentials();
  return tls->CredentialsFor({tls->self().job, role, index});
}

std::string NameOf(const v1::Task& task) {
  return absl::StrCat(absl::AsciiStrToLower(v1::TaskType_Name(task.type())),
                      "-", task.index());
}

// Calls one of the chief's or of anybody's methods that take no arguments.
template <typename Request, typename Reply>
absl::StatusOr<Reply> Ask(const RunningProcess& process, const Tls* tls,
                          uint64_t incarnation, absl::Time deadline) {
  UnaryCall<Request, Reply> call(process.channel, deadline);
  const std::string meant = ProcessText(incarnation);
  if (!meant.empty()) call.AddMetadata(kIncarnationKey, meant);
  const grpc::Status& status = call.Do(Request());
  if (!status.ok()) return process.Explain(status, tls);
  return std::move(call.reply());
}

// The servers that the chief's status lists. A process with several shards is
// as many of them, all at one address.
absl::StatusOr<std::vector<RunningProcess>> ServersIn(
    const v1::JobStats& job, const std::shared_ptr<const Tls>& tls) {
  std::vector<RunningProcess> servers;
  uint32_t tasks = 0;
  uint32_t shard = 0;
  for (const v1::Member& member : job.members()) {
    if (member.task().type() != v1::PS) continue;
    RunningProcess server;
    server.name = NameOf(member.task());
    server.address = member.address();
    if (server.address.empty()) {
      return absl::UnavailableError(absl::StrCat("the chief is not told where ",
                                                 server.name, " listens"));
    }
    if (!servers.empty() && servers.back().address == server.address) {
      ++shard;
      server.channel = servers.back().channel;
    } else {
      shard = 0;
      server.channel = ChannelTo(
          server.address,
          CredentialsFor(tls.get(), CertifiedName::Role::kPs, tasks++));
    }
    server.shard = absl::StrCat(shard);
    servers.push_back(std::move(server));
  }
  return servers;
}

// Its servers are all listed, from the beginning, and so are its workers.
bool HasNoServers(const v1::JobStats& job) {
  return !job.members().empty() &&
         std::none_of(job.members().begin(), job.members().end(),
                      [](const v1::Member& member) {
                        return member.task().type() == v1::PS;
                      });
}

}  // namespace

absl::Status RunningProcess::Explain(const grpc::Status& status,
                                     const Tls* tls) const {
  const absl::Status as_said = FromGrpcStatus(status);
  switch (RefusalOf(as_said).reason()) {
    case v1::Refusal::REASON_UNSPECIFIED:
      break;
    case v1::Refusal::JOB_FINISHED:
      return absl::CancelledError(kEnded);
    case v1::Refusal::OVER_LIMIT:
      return absl::UnavailableError(as_said.message());
    default:
      return as_said;
  }
  std::string why;
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      why = "no answer in time";
      break;
    case grpc::StatusCode::UNIMPLEMENTED:
      why = "not a paramd process";
      break;
    case grpc::StatusCode::PERMISSION_DENIED:
      why = status.error_message();
      break;
    default:
      why = tls == nullptr ? WhyFailedWithoutTls(status.error_message())
                           : tls->WhyFailed(status.error_message());
  }
  if (why.empty()) why = WhyUnreached(status.error_message());
  return absl::UnavailableError(
      absl::StrCat(name, " at '", address, "' can't be reached: ", why));
}

// It is at the address, or named by who is there.
absl::StatusOr<v1::StatusReply> AskChief(const ClusterAddress& where,
                                         absl::Time deadline, bool* answered,
                                         RunningProcess* chief) {
  const Tls* const tls = where.tls.get();
  RunningProcess first;
  first.name = "the process";
  first.address = where.address;
  first.channel = ChannelTo(where.address,
                            tls == nullptr ? grpc::InsecureChannelCredentials()
                                           : tls->CredentialsForJob());
  using Request = v1::StatusRequest;
  using Reply = v1::StatusReply;
  ASSIGN_OR_RETURN(Reply reply, (Ask<Request, Reply>(first, tls, 0, deadline)));
  *answered = true;
  chief->name = "the chief";
  chief->address = reply.has_job() ? where.address : reply.chief_address();
  if (chief->address.empty()) {
    return absl::NotFoundError(
        absl::StrCat(NameOf(reply.task()), " at '", where.address,
                     "' is not told where its chief is"));
  }
  chief->channel = ChannelTo(
      chief->address, CredentialsFor(tls, CertifiedName::Role::kWorker, 0));
  if (reply.has_job()) return reply;
  ASSIGN_OR_RETURN(reply, (Ask<Request, Reply>(*chief, tls, 0, deadline)));
  if (reply.has_job()) return reply;
  return absl::NotFoundError(absl::StrCat("at '", chief->address, "' is ",
                                          NameOf(reply.task()),
                                          ", which is not the chief"));
}

absl::StatusOr<RunningCluster> FindCluster(const ClusterAddress& where,
                                           absl::Time deadline,
                                           bool* answered) {
  RunningProcess chief;
  ASSIGN_OR_RETURN(const v1::StatusReply status,
                   AskChief(where, deadline, answered, &chief));
  if (status.job().state() == v1::FINISHED) {
    return absl::CancelledError(kEnded);
  }
  if (HasNoServers(status.job())) {
    return absl::FailedPreconditionError(
        "the job has no servers whose weights could be read: each of its "
        "workers has a copy; take a checkpoint (paramd checkpoint now), and "
        "read that");
  }
  RunningCluster cluster;
  ASSIGN_OR_RETURN(cluster.servers, ServersIn(status.job(), where.tls));
  ASSIGN_OR_RETURN(
      v1::GetConfigurationReply reply,
      (Ask<v1::GetConfigurationRequest, v1::GetConfigurationReply>(
          chief, where.tls.get(), status.incarnation(), deadline)));
  cluster.configuration = std::move(*reply.mutable_configuration());
  const size_t placed =
      static_cast<size_t>(cluster.configuration.servers_size());
  if (placed == 0 || placed != cluster.servers.size()) {
    const std::string& whom = status.job().waiting_for();
    return absl::UnavailableError(
        absl::StrCat("the chief has not placed the variables yet",
                     whom.empty() ? "" : ": it waits for ", whom));
  }
  return cluster;
}

}  // namespace paramd
