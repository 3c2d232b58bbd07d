#include "coordinator/election/etcd_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/channel_arguments.h"
#include "grpcpp/support/sync_stream.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "checkpoint/file.h"
#include "net/unreached.h"

namespace paramd {
namespace {

constexpr int kMostBytes = 1 << 20;  // Of an answer.
constexpr uint64_t kMostFileBytes = 1 << 20;

std::shared_ptr<grpc::Channel> ChannelTo(
    const std::string& endpoint,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // One that is back is heard before the leases, which begin again then, are
  // over.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 200);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  arguments.SetMaxReceiveMessageSize(kMostBytes);
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", endpoint),
                                   credentials, arguments);
}

absl::StatusOr<std::string> ReadTlsFile(const std::string& directory,
                                        absl::string_view name) {
  auto text = ReadWholeFile(absl::StrCat(directory, "/", name), kMostFileBytes);
  if (text.ok()) return *std::move(text);
  return absl::InvalidArgumentError(
      absl::StrCat("chief_election_tls_dir: ", text.status().message(),
                   "; it needs ca.crt, tls.crt and tls.key"));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const std::string& directory) {
  if (directory.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  ASSIGN_OR_RETURN(options.pem_root_certs, ReadTlsFile(directory, "ca.crt"));
  ASSIGN_OR_RETURN(options.pem_cert_chain, ReadTlsFile(directory, "tls.crt"));
  ASSIGN_OR_RETURN(options.pem_private_key, ReadTlsFile(directory, "tls.key"));
  return grpc::SslCredentials(options);
}

absl::Status Explain(const std::string& endpoint, const grpc::Status& status) {
  std::string why;
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      why = WhyUnreached(status.error_message());
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      why = "no answer";
      break;
    default:
      why = absl::StrCat("it says: ", status.error_message().substr(0, 200));
  }
  return absl::UnavailableError(absl::StrCat("etcd at ", endpoint, ": ", why));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EtcdClient>> EtcdClient::Create(
    const EtcdPlace& place, const std::string& tls_directory) {
  ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(tls_directory));
  return std::unique_ptr<EtcdClient>(new EtcdClient(place, credentials));
}

EtcdClient::EtcdClient(
    const EtcdPlace& place,
    const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : endpoints_(place.endpoints) {
  for (const std::string& endpoint : endpoints_) {
    channels_.push_back(ChannelTo(endpoint, credentials));
  }
}

EtcdClient::~EtcdClient() = default;

bool EtcdClient::Begin(grpc::ClientContext* context) {
  const MutexLock lock(&mutex_);
  if (!cancelled_) under_way_.insert(context);
  return !cancelled_;
}

void EtcdClient::End(grpc::ClientContext* context) {
  const MutexLock lock(&mutex_);
  under_way_.erase(context);
}

void EtcdClient::Cancel() {
  const MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* const context : under_way_) context->TryCancel();
}

template <typename Request, typename Reply, typename IsLast>
absl::Status EtcdClient::CallOne(size_t member, const char* method,
                                 bool streams, const Request& request,
                                 absl::Duration patience, Reply* reply,
                                 IsLast is_last) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + patience));
  if (!Begin(&context)) return absl::UnavailableError("etcd is not asked");
  // On the wire a call with one message each way is such a stream too.
  const auto& channel = channels_[member];
  const grpc::internal::RpcMethod rpc(
      method, grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  const std::unique_ptr<grpc::ClientReaderWriter<Request, Reply>> stream(
      grpc::internal::ClientReaderWriterFactory<Request, Reply>::Create(
          channel.get(), rpc, &context));
  bool has_reply = stream->Write(request);
  // A stream of etcd ends when the caller has said all.
  if (has_reply && !streams) stream->WritesDone();
  while (has_reply) {
    has_reply = stream->Read(reply);
    if (has_reply && is_last(*reply)) break;
  }
  if (has_reply) {
    if (streams) context.TryCancel();
    Reply rest;
    while (stream->Read(&rest)) {
    }
  }
  const grpc::Status status = stream->Finish();
  End(&context);
  if (has_reply && (streams || status.ok())) return absl::OkStatus();
  return Explain(endpoints_[member],
                 status.ok()
                     ? grpc::Status(grpc::StatusCode::UNKNOWN, "nothing")
                     : status);
}

template <typename Request, typename Reply>
absl::Status EtcdClient::Call(const char* method, bool streams,
                              const Request& request, Reply* reply) {
  absl::Status status;
  for (size_t tried = 0; tried < endpoints_.size(); ++tried) {
    const size_t member = member_;
    status = CallOne(member, method, streams, request, kPatience, reply,
                     [](const Reply&) { return true; });
    if (status.ok()) return status;
    member_ = (member + 1) % endpoints_.size();
  }
  return status;
}

absl::StatusOr<EtcdClient::Found> EtcdClient::Get(const std::string& key) {
  etcdserverpb::RangeRequest request;
  request.set_key(key);
  etcdserverpb::RangeResponse reply;
  RETURN_IF_ERROR(Call("/etcdserverpb.KV/Range", false, request, &reply));
  Found found;
  found.revision = reply.header().revision();
  if (reply.kvs_size() > 0) found.kv = reply.kvs(0);
  return found;
}

absl::StatusOr<int64_t> EtcdClient::Grant(absl::Duration ttl) {
  etcdserverpb::LeaseGrantRequest request;
  request.set_ttl(std::max<int64_t>(
      1, absl::ToInt64Seconds(absl::Ceil(ttl, absl::Seconds(1)))));
  etcdserverpb::LeaseGrantResponse reply;
  RETURN_IF_ERROR(
      Call("/etcdserverpb.Lease/LeaseGrant", false, request, &reply));
  return reply.id();
}

absl::StatusOr<bool> EtcdClient::KeepAlive(int64_t lease) {
  etcdserverpb::LeaseKeepAliveRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseKeepAliveResponse reply;
  RETURN_IF_ERROR(
      Call("/etcdserverpb.Lease/LeaseKeepAlive", true, request, &reply));
  return reply.ttl() > 0;
}

absl::Status EtcdClient::Revoke(int64_t lease) {
  etcdserverpb::LeaseRevokeRequest request;
  request.set_id(lease);
  etcdserverpb::LeaseRevokeResponse reply;
  return Call("/etcdserverpb.Lease/LeaseRevoke", false, request, &reply);
}

absl::StatusOr<int64_t> EtcdClient::CreateKey(const std::string& key,
                                              const std::string& value,
                                              int64_t lease) {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare* const compare = request.add_compare();
  compare->set_target(etcdserverpb::Compare::CREATE);
  compare->set_key(key);
  compare->set_create_revision(0);
  etcdserverpb::PutRequest* const put =
      request.add_success()->mutable_request_put();
  put->set_key(key);
  put->set_value(value);
  put->set_lease(lease);
  etcdserverpb::TxnResponse reply;
  RETURN_IF_ERROR(Call("/etcdserverpb.KV/Txn", false, request, &reply));
  return reply.succeeded() ? reply.header().revision() : 0;
}

absl::Status EtcdClient::DeleteKey(const std::string& key,
                                   int64_t create_revision) {
  etcdserverpb::TxnRequest request;
  etcdserverpb::Compare* const compare = request.add_compare();
  compare->set_target(etcdserverpb::Compare::CREATE);
  compare->set_key(key);
  compare->set_create_revision(create_revision);
  request.add_success()->mutable_request_delete_range()->set_key(key);
  etcdserverpb::TxnResponse reply;
  return Call("/etcdserverpb.KV/Txn", false, request, &reply);
}

absl::Status EtcdClient::WaitForChange(const std::string& key, int64_t revision,
                                       absl::Duration most) {
  etcdserverpb::WatchRequest request;
  request.mutable_create_request()->set_key(key);
  request.mutable_create_request()->set_start_revision(revision + 1);
  etcdserverpb::WatchResponse reply;
  const size_t member = member_;
  // A call ends at its deadline by another clock, so it may be early.
  const Time until = MonotonicNow() + (most - absl::Milliseconds(100));
  const absl::Status status =
      CallOne(member, "/etcdserverpb.Watch/Watch", true, request, most, &reply,
              [](const etcdserverpb::WatchResponse& answer) {
                return answer.canceled() || answer.events_size() > 0;
              });
  if (status.ok() || MonotonicNow() >= until) return absl::OkStatus();
  member_ = (member + 1) % endpoints_.size();
  return status;
}

}  // namespace paramd
