// A shard's dealings with pushes.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "server/core/shard.h"

namespace paramd {

void Shard::ReceivePush(const Message& message, const v1::PushRequest& request,
                        Time now, Outbox* out) {
  auto reply = std::make_unique<v1::PushReply>();
  const absl::Status status = Push(message, request, reply.get());
  if (status.ok()) {
    gate_.Hear(request.header(), request.clock(), now);
    out->Reply(message.call, std::move(reply));
  } else {
    RefuseCall(message.call, status, out);
  }
  if (content_ == nullptr) return;
  for (std::string& note : content_->TakeNotes()) out->Note(std::move(note));
}

absl::Status Shard::Push(const Message& message, const v1::PushRequest& request,
                         v1::PushReply* reply) {
  RETURN_IF_ERROR(CheckPusher(message, request.header()));
  RETURN_IF_ERROR(CheckContributors());
  RETURN_IF_ERROR(IsSync()
                      ? sync_->Push(request, message.payload, reply)
                      : content_->Push(request, message.payload, reply));
  *reply->mutable_server_generation() = generation_;
  *reply->mutable_configuration() = configuration_.version();
  return absl::OkStatus();
}

absl::Status Shard::CheckPusher(const Message& message,
                                const v1::Header& header) const {
  RETURN_IF_ERROR(CheckRunning());
  RETURN_IF_ERROR(CheckSession(message, header));
  RETURN_IF_ERROR(CheckKnown(header));
  RETURN_IF_ERROR(CheckFilled());
  return CheckStaying();
}

void Shard::SetContentWorkers() {
  std::vector<uint32_t> workers;
  for (const auto& [worker, generation] : sessions_) workers.push_back(worker);
  content_->SetWorkers(workers);
}

}  // namespace paramd
