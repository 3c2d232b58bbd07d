#include "client/running_cluster.h"

#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "client/unary_call.h"
#include "net/caller.h"
#include "net/grpc_status.h"
#include "net/outside_channel.h"
#include "net/unreached.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

constexpr absl::string_view kEnded =
    "the job has ended, and its servers with it: its weights are in its last "
    "checkpoint";

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

// The servers that the chief's status lists.
absl::StatusOr<std::vector<v1::Member>> ServersIn(const v1::JobStats& job) {
  std::vector<v1::Member> servers;
  for (const v1::Member& member : job.members()) {
    if (member.task().type() != v1::PS) continue;
    if (member.address().empty()) {
      return absl::UnavailableError(absl::StrCat(
          "the chief is not told where ", NameOf(member.task()), " listens"));
    }
    servers.push_back(member);
  }
  return servers;
}

// With replication: how many places of servers a process has. Any of them
// knows.
absl::StatusOr<uint32_t> PlacesEach(const std::vector<v1::Member>& servers,
                                    const Tls* tls, absl::Time deadline) {
  RunningProcess server;
  server.name = NameOf(servers[0].task());
  server.address = servers[0].address();
  server.channel =
      OutsideChannel(OutsideTarget(server.address),
                     tls == nullptr ? grpc::InsecureChannelCredentials()
                                    : tls->CredentialsForJob());
  ASSIGN_OR_RETURN(const auto said,
                   (Ask<v1::StatusRequest, v1::StatusReply>(
                       server, tls, servers[0].incarnation(), deadline)));
  return std::max<uint32_t>(1, said.shards_size());
}

// As what is called, a process that is several of them over one channel.
// `places_each`: 0 without replication. Where servers are at one address in
// turn, they are the shards of a task then.
std::vector<RunningProcess> ToCall(const std::vector<v1::Member>& servers,
                                   uint32_t places_each, const Tls* tls) {
  std::vector<RunningProcess> called;
  std::map<std::string, std::shared_ptr<grpc::Channel>> channels;
  uint32_t task = 0;
  uint32_t shard = 0;
  for (size_t s = 0; s < servers.size(); ++s) {
    const std::string& address = servers[s].address();
    if (places_each > 0) {
      task = servers[s].peer() / places_each;
      shard = servers[s].peer() % places_each;
    } else if (s > 0) {
      const bool is_next = address != servers[s - 1].address();
      task += is_next ? 1 : 0;
      shard = is_next ? 0 : shard + 1;
    }
    std::shared_ptr<grpc::Channel>& channel = channels[address];
    if (channel == nullptr) {
      channel =
          OutsideChannel(OutsideTarget(address),
                         CredentialsFor(tls, CertifiedName::Role::kPs, task));
    }
    called.push_back(
        {NameOf(servers[s].task()), address, channel, absl::StrCat(shard)});
  }
  return called;
}

// Whether servers are where the configuration says, in which one of them may
// have been taken over since.
bool AreInTheirPlaces(const std::vector<v1::Member>& servers,
                      const v1::Configuration& configuration) {
  for (size_t s = 0; s < servers.size(); ++s) {
    const auto& said = configuration.servers(static_cast<int>(s));
    if (said.has_peer() != servers[s].has_peer() ||
        said.peer() != servers[s].peer()) {
      return false;
    }
  }
  return true;
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
  first.channel =
      OutsideChannel(OutsideTarget(where.address),
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
  chief->channel =
      OutsideChannel(OutsideTarget(chief->address),
                     CredentialsFor(tls, CertifiedName::Role::kWorker, 0));
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
  ASSIGN_OR_RETURN(const std::vector<v1::Member> servers,
                   ServersIn(status.job()));
  ASSIGN_OR_RETURN(
      v1::GetConfigurationReply reply,
      (Ask<v1::GetConfigurationRequest, v1::GetConfigurationReply>(
          chief, where.tls.get(), status.incarnation(), deadline)));
  cluster.configuration = std::move(*reply.mutable_configuration());
  const size_t placed =
      static_cast<size_t>(cluster.configuration.servers_size());
  if (placed == 0 || placed != servers.size()) {
    const std::string& whom = status.job().waiting_for();
    return absl::UnavailableError(
        absl::StrCat("the chief has not placed the variables yet",
                     whom.empty() ? "" : ": it waits for ", whom));
  }
  if (!AreInTheirPlaces(servers, cluster.configuration)) {
    return absl::UnavailableError("a server is in another place by now");
  }
  uint32_t places_each = 0;
  if (servers[0].has_peer()) {
    ASSIGN_OR_RETURN(places_each,
                     PlacesEach(servers, where.tls.get(), deadline));
  }
  cluster.servers = ToCall(servers, places_each, where.tls.get());
  return cluster;
}

}  // namespace paramd
