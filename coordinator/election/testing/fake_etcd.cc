#include "coordinator/election/testing/fake_etcd.h"

#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/impl/rpc_service_method.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/method_handler.h"
#include "grpcpp/support/sync_stream.h"

#include "base/check.h"
#include "base/clock.h"

namespace paramd {

using grpc::internal::RpcMethod;

// Its methods, under etcd's names.
class FakeEtcd::Service : public grpc::Service {
 public:
  explicit Service(FakeEtcd* etcd) : etcd_(etcd) {
    AddUnary<etcdserverpb::RangeRequest, etcdserverpb::RangeResponse>(
        "/etcdserverpb.KV/Range", [this](const auto& request, auto* reply) {
          etcd_->Range(request, reply);
          return grpc::Status::OK;
        });
    AddUnary<etcdserverpb::TxnRequest, etcdserverpb::TxnResponse>(
        "/etcdserverpb.KV/Txn", [this](const auto& request, auto* reply) {
          return etcd_->Txn(request, reply)
                     ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::UNAVAILABLE, "lost");
        });
    AddUnary<etcdserverpb::LeaseGrantRequest, etcdserverpb::LeaseGrantResponse>(
        "/etcdserverpb.Lease/LeaseGrant",
        [this](const auto& request, auto* reply) {
          etcd_->Grant(request, reply);
          return grpc::Status::OK;
        });
    AddUnary<etcdserverpb::LeaseRevokeRequest,
             etcdserverpb::LeaseRevokeResponse>(
        "/etcdserverpb.Lease/LeaseRevoke", [this](const auto& request, auto*) {
          return etcd_->Revoke(request.id())
                     ? grpc::Status::OK
                     : grpc::Status(grpc::StatusCode::NOT_FOUND,
                                    "etcdserver: requested lease not found");
        });
    AddKeepAlive();
    AddWatch();
  }

 private:
  template <typename Request, typename Reply>
  using Stream = grpc::ServerReaderWriter<Reply, Request>;

  template <typename Request, typename Reply>
  void AddUnary(const char* name,
                std::function<grpc::Status(const Request&, Reply*)> answer) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        name, RpcMethod::NORMAL_RPC,
        new grpc::internal::RpcMethodHandler<Service, Request, Reply,
                                             grpc::protobuf::MessageLite,
                                             grpc::protobuf::MessageLite>(
            [answer = std::move(answer)](Service*, grpc::ServerContext*,
                                         const Request* request, Reply* reply) {
              return answer(*request, reply);
            },
            this)));
  }

  template <typename Request, typename Reply>
  void AddStream(
      const char* name,
      std::function<grpc::Status(grpc::ServerContext*, Stream<Request, Reply>*)>
          answer) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        name, RpcMethod::BIDI_STREAMING,
        new grpc::internal::BidiStreamingHandler<Service, Request, Reply>(
            [answer = std::move(answer)](Service*, grpc::ServerContext* context,
                                         Stream<Request, Reply>* stream) {
              return answer(context, stream);
            },
            this)));
  }

  void AddKeepAlive() {
    AddStream<etcdserverpb::LeaseKeepAliveRequest,
              etcdserverpb::LeaseKeepAliveResponse>(
        "/etcdserverpb.Lease/LeaseKeepAlive",
        [this](grpc::ServerContext*, auto* stream) {
          etcdserverpb::LeaseKeepAliveRequest request;
          while (stream->Read(&request)) {
            etcdserverpb::LeaseKeepAliveResponse reply;
            reply.set_id(request.id());
            reply.set_ttl(etcd_->KeepAlive(request.id()));
            stream->Write(reply);
          }
          return grpc::Status::OK;
        });
  }

  // As etcd: ends when the caller has said all, so a caller must not.
  void AddWatch() {
    AddStream<etcdserverpb::WatchRequest, etcdserverpb::WatchResponse>(
        "/etcdserverpb.Watch/Watch",
        [this](grpc::ServerContext* context, auto* stream) {
          etcdserverpb::WatchRequest request;
          if (!stream->Read(&request)) return grpc::Status::OK;
          etcdserverpb::WatchResponse created;
          created.set_created(true);
          stream->Write(created);
          const auto& wanted = request.create_request();
          while (!etcd_->HasChanged(wanted.key(), wanted.start_revision())) {
            if (context->IsCancelled()) return grpc::Status::CANCELLED;
          }
          etcdserverpb::WatchResponse changed;
          changed.add_events()->mutable_kv()->set_key(wanted.key());
          stream->Write(changed);
          return grpc::Status::OK;
        });
  }

  FakeEtcd* const etcd_;
};

FakeEtcd::FakeEtcd() : endpoint_("127.0.0.1:0") { Start(); }

FakeEtcd::~FakeEtcd() { GoAway(); }

void FakeEtcd::Start() {
  service_ = std::make_unique<Service>(this);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(endpoint_, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr && port > 0, "a port of loopback is free");
  endpoint_ = absl::StrCat("127.0.0.1:", port);
}

void FakeEtcd::GoAway() {
  if (server_ == nullptr) return;
  {
    const MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
}

void FakeEtcd::Return() {
  {
    const MutexLock lock(&mutex_);
    stopping_ = false;
    for (auto& [id, lease] : leases_) {
      lease.end = MonotonicNow() + absl::Seconds(lease.ttl);
    }
  }
  Start();
}

void FakeEtcd::LoseAll() {
  const MutexLock lock(&mutex_);
  keys_.clear();
  leases_.clear();
  changes_.clear();
  revision_ = 1;
}

void FakeEtcd::EndAllLeases() {
  const MutexLock lock(&mutex_);
  while (!leases_.empty()) EndLeaseLocked(leases_.begin()->first);
}

void FakeEtcd::Put(const std::string& key, const std::string& value) {
  const MutexLock lock(&mutex_);
  PutLocked(key, value, /*lease=*/0);
}

void FakeEtcd::Delete(const std::string& key) {
  const MutexLock lock(&mutex_);
  DeleteLocked(key);
}

absl::optional<etcdserverpb::KeyValue> FakeEtcd::Get(
    const std::string& key) const {
  const MutexLock lock(&mutex_);
  const auto found = keys_.find(key);
  return found == keys_.end() ? absl::nullopt
                              : absl::make_optional(found->second);
}

size_t FakeEtcd::leases() const {
  const MutexLock lock(&mutex_);
  return leases_.size();
}

void FakeEtcd::LoseAnswers(int transactions) {
  const MutexLock lock(&mutex_);
  answers_to_lose_ = transactions;
}

void FakeEtcd::Range(const etcdserverpb::RangeRequest& request,
                     etcdserverpb::RangeResponse* reply) {
  const MutexLock lock(&mutex_);
  ExpireLocked();
  reply->mutable_header()->set_revision(revision_);
  const auto found = keys_.find(request.key());
  if (found != keys_.end()) *reply->add_kvs() = found->second;
}

bool FakeEtcd::Txn(const etcdserverpb::TxnRequest& request,
                   etcdserverpb::TxnResponse* reply) {
  const MutexLock lock(&mutex_);
  ExpireLocked();
  bool succeeds = true;
  for (const auto& compare : request.compare()) {
    CHECK(compare.target() == etcdserverpb::Compare::CREATE,
          "an election compares create revisions");
    const auto found = keys_.find(compare.key());
    const int64_t created =
        found == keys_.end() ? 0 : found->second.create_revision();
    succeeds = succeeds && created == compare.create_revision();
  }
  for (const auto& operation : request.success()) {
    if (!succeeds) break;
    if (operation.has_request_put()) {
      const auto& put = operation.request_put();
      PutLocked(put.key(), put.value(), put.lease());
    } else {
      DeleteLocked(operation.request_delete_range().key());
    }
  }
  reply->mutable_header()->set_revision(revision_);
  reply->set_succeeded(succeeds);
  return answers_to_lose_ == 0 || answers_to_lose_-- == 0;
}

void FakeEtcd::Grant(const etcdserverpb::LeaseGrantRequest& request,
                     etcdserverpb::LeaseGrantResponse* reply) {
  const MutexLock lock(&mutex_);
  const int64_t id = ++last_lease_;
  leases_[id] = {request.ttl(), MonotonicNow() + absl::Seconds(request.ttl())};
  reply->set_id(id);
  reply->set_ttl(request.ttl());
}

bool FakeEtcd::Revoke(int64_t id) {
  const MutexLock lock(&mutex_);
  ExpireLocked();
  if (leases_.count(id) == 0) return false;
  EndLeaseLocked(id);
  return true;
}

int64_t FakeEtcd::KeepAlive(int64_t id) {
  const MutexLock lock(&mutex_);
  ExpireLocked();
  const auto found = leases_.find(id);
  if (found == leases_.end()) return 0;
  found->second.end = MonotonicNow() + absl::Seconds(found->second.ttl);
  return found->second.ttl;
}

bool FakeEtcd::HasChanged(const std::string& key, int64_t from) {
  MutexLock lock(&mutex_);
  ExpireLocked();
  if (stopping_) return true;
  if (changes_[key] >= from) return true;
  changed_.WaitFor(&mutex_, absl::Milliseconds(20));
  return changes_[key] >= from;
}

void FakeEtcd::ExpireLocked() {
  const Time now = MonotonicNow();
  std::vector<int64_t> ended;
  for (const auto& [id, lease] : leases_) {
    if (lease.end <= now) ended.push_back(id);
  }
  for (const int64_t id : ended) EndLeaseLocked(id);
}

void FakeEtcd::EndLeaseLocked(int64_t id) {
  leases_.erase(id);
  std::vector<std::string> bound;
  for (const auto& [key, kv] : keys_) {
    if (kv.lease() == id) bound.push_back(key);
  }
  for (const std::string& key : bound) DeleteLocked(key);
}

void FakeEtcd::PutLocked(const std::string& key, const std::string& value,
                         int64_t lease) {
  etcdserverpb::KeyValue& kv = keys_[key];
  changes_[key] = ++revision_;
  if (kv.create_revision() == 0) kv.set_create_revision(revision_);
  kv.set_mod_revision(revision_);
  kv.set_key(key);
  kv.set_value(value);
  kv.set_lease(lease);
  changed_.NotifyAll();
}

void FakeEtcd::DeleteLocked(const std::string& key) {
  if (keys_.erase(key) == 0) return;
  changes_[key] = ++revision_;
  changed_.NotifyAll();
}

}  // namespace paramd
