#include "coordinator/core/shard_relay.h"

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd {

void ShardRelay::Begin(const v1::SnapshotNumber& snapshot,
                       const std::string& directory) {
  snapshot_ = snapshot;
  directory_ = directory;
  ways_.clear();
}

std::string ShardRelay::Unseen(uint32_t server, const v1::ShardFile& file) {
  ways_.try_emplace(server).first->second.file = file;
  if (!named_in_log_.insert(server).second) return "";
  return absl::StrCat("ps-", server, " does not see '", directory_,
                      "'; its part goes through the chief");
}

bool ShardRelay::NeedsFetch(uint32_t server) const {
  const auto way = ways_.find(server);
  return way != ways_.end() && !way->second.writing;
}

bool ShardRelay::IsWriting(uint32_t server) const {
  const auto way = ways_.find(server);
  return way != ways_.end() && way->second.writing;
}

v1::FetchShardRequest ShardRelay::FetchFor(uint32_t server) const {
  v1::FetchShardRequest request;
  *request.mutable_header()->mutable_snapshot() = snapshot_;
  request.set_offset(ways_.at(server).offset);
  request.set_limit(window_bytes_);
  return request;
}

absl::StatusOr<v1::WriteFetched> ShardRelay::Fetched(
    uint32_t server, const v1::FetchShardReply& reply, uint64_t bytes) {
  const auto found = ways_.find(server);
  CHECK(found != ways_.end() && !found->second.writing,
        "a window is asked for before it comes");
  Way& way = found->second;
  const bool is_next =
      reply.snapshot() == snapshot_ && reply.offset() == way.offset &&
      (way.offset == 0 || reply.total() == way.total) && bytes > 0 &&
      bytes <= window_bytes_ && way.offset + bytes <= reply.total();
  if (!is_next) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ps-", server, " was asked for '", way.file.name(), "' from ",
        way.offset, " and gave ", bytes, " bytes from ", reply.offset(), " of ",
        reply.total(), " of snapshot ", VersionName(reply.snapshot())));
  }
  way.writing = true;
  way.bytes = bytes;
  way.total = reply.total();
  v1::WriteFetched write;
  write.set_directory(directory_);
  write.set_name(way.file.name());
  write.set_offset(way.offset);
  write.set_total(way.total);
  return write;
}

absl::StatusOr<absl::optional<v1::ShardFile>> ShardRelay::Written(
    uint32_t server, const v1::WriteFetchedResult& result) {
  const auto found = ways_.find(server);
  CHECK(found != ways_.end() && found->second.writing,
        "what is written was fetched");
  Way& way = found->second;
  way.writing = false;
  way.offset += way.bytes;
  if (result.bytes() != way.offset) {
    return absl::DataLossError(absl::StrCat(
        "'", directory_, "/", way.file.name(), "' has ", result.bytes(),
        " bytes where ", way.offset, " were written"));
  }
  if (way.offset < way.total) return absl::optional<v1::ShardFile>();
  v1::ShardFile file = way.file;
  file.set_bytes(result.bytes());
  file.set_crc32c(result.crc32c());
  ways_.erase(found);
  return absl::make_optional(file);
}

}  // namespace paramd
