#include "coordinator/core/shard_relay.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/shard_description.h"
#include "proto/refusal.h"

namespace paramd {
namespace {

// A manifest, which has those of all servers, has no more.
constexpr uint64_t kMostDescriptionBytes = uint64_t{256} << 20;

}  // namespace

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

void ShardRelay::Undescribed(uint32_t server, bool unseen) {
  Way& way = ways_[server];
  way = Way();
  way.describing = true;
  way.unseen = unseen;
  way.offset = kDescriptionOffset;
}

bool ShardRelay::IsDescribing(uint32_t server) const {
  const auto way = ways_.find(server);
  return way != ways_.end() && way->second.describing;
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

absl::Status ShardRelay::CheckWindow(uint32_t server, const Way& way,
                                     const v1::FetchShardReply& reply,
                                     uint64_t bytes) const {
  const uint64_t begin = way.describing ? kDescriptionOffset : 0;
  const bool is_next =
      reply.snapshot() == snapshot_ && reply.offset() == way.offset &&
      (way.offset == begin || reply.total() == way.total) && bytes > 0 &&
      bytes <= window_bytes_ && way.offset + bytes <= reply.total();
  if (is_next) return absl::OkStatus();
  const std::string what = way.describing
                               ? "the description of its file"
                               : absl::StrCat("'", way.file.name(), "'");
  return absl::InvalidArgumentError(absl::StrCat(
      "ps-", server, " was asked for ", what, " from ", way.offset - begin,
      " and gave ", bytes, " bytes from ", reply.offset() - begin, " of ",
      reply.total() - begin, " of snapshot ", VersionName(reply.snapshot())));
}

absl::StatusOr<absl::optional<v1::WrittenReply>> ShardRelay::Described(
    uint32_t server, const v1::FetchShardReply& reply,
    const BufferChain& payload) {
  const auto found = ways_.find(server);
  CHECK(found != ways_.end() && found->second.describing,
        "a window is asked for before it comes");
  Way& way = found->second;
  const uint64_t bytes = ChainSize(payload);
  RETURN_IF_ERROR(CheckWindow(server, way, reply, bytes));
  way.total = reply.total();
  way.offset += bytes;
  for (const Buffer& piece : payload) {
    way.description.append(reinterpret_cast<const char*>(piece.bytes().data()),
                           piece.size());
  }
  if (way.description.size() > kMostDescriptionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the description of the file of ps-", server, " has ",
                     way.total - kDescriptionOffset, " bytes; the limit is ",
                     kMostDescriptionBytes));
  }
  if (way.offset < way.total) return absl::optional<v1::WrittenReply>();
  v1::WrittenReply written;
  *written.mutable_snapshot() = snapshot_;
  written.set_unseen(way.unseen);
  if (!written.mutable_file()->ParseFromString(way.description)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ps-", server, " describes its file by what is no description"));
  }
  ways_.erase(found);
  return absl::make_optional(std::move(written));
}

absl::StatusOr<v1::WriteFetched> ShardRelay::Fetched(
    uint32_t server, const v1::FetchShardReply& reply, uint64_t bytes) {
  const auto found = ways_.find(server);
  CHECK(found != ways_.end() && !found->second.writing,
        "a window is asked for before it comes");
  Way& way = found->second;
  RETURN_IF_ERROR(CheckWindow(server, way, reply, bytes));
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
