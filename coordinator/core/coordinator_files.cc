// The coordinator's dealings with a snapshot's files, up to the last that is
// durable.
#include <utility>

#include "absl/strings/str_cat.h"

#include "coordinator/core/coordinator.h"
#include "proto/refusal.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void Coordinator::OnWritten(uint32_t server, const v1::WrittenReply& reply,
                            Time now, Outbox* out) {
  if (!snapshot_.has_value() || reply.snapshot() != snapshot_->number() ||
      !snapshot_->NeedsWritten(server)) {
    return;
  }
  v1::ShardFile file = reply.file();
  const absl::Status known = bases_.Complete(snapshot_->base(), &file);
  if (!known.ok()) return FailSnapshot(known.message(), now, out);
  if (!reply.unseen()) return snapshot_->Written(server, file);
  std::string note = relay_.Unseen(server, file);
  if (!note.empty()) out->Note(std::move(note));
}

void Coordinator::OnFetched(uint32_t server, const v1::FetchShardReply& reply,
                            const BufferChain& payload, Time now, Outbox* out) {
  if (!snapshot_.has_value() || !relay_.NeedsFetch(server) ||
      reply.snapshot() != snapshot_->number()) {
    return;
  }
  auto write = relay_.Fetched(server, reply, ChainSize(payload));
  if (!write.ok()) return FailSnapshot(write.status().message(), now, out);
  windows_[next_io_] = {snapshot_->number(), server};
  StartIo(std::make_unique<v1::WriteFetched>(*std::move(write)),
          &Coordinator::OnFetchedWritten, out, payload);
}

void Coordinator::OnFetchedWritten(const IoResult& result, Time now,
                                   Outbox* out) {
  const auto window = windows_.find(result.io);
  const auto [number, server] = window->second;
  windows_.erase(window);
  if (!snapshot_.has_value() || number != snapshot_->number()) return;
  const auto* written =
      DynamicCastToGenerated<v1::WriteFetchedResult>(result.head.get());
  if (!result.status.ok() || written == nullptr) {
    return FailSnapshot(absl::StrCat("the part of ps-", server, ": ",
                                     result.status.message()),
                        now, out);
  }
  const auto file = relay_.Written(server, *written);
  if (!file.ok()) return FailSnapshot(file.status().message(), now, out);
  if (file->has_value()) snapshot_->Written(server, **file);
}

}  // namespace paramd
