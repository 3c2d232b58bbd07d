#ifndef PARAMD_SERVER_CORE_CONTENT_PULLS_H_
#define PARAMD_SERVER_CORE_CONTENT_PULLS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/paramd/v1/data.pb.h"
#include "server/core/row_numbers.h"
#include "server/core/slice.h"
#include "tensor/buffer.h"
#include "tensor/disk_memory.h"
#include "tensor/number_format.h"

namespace paramd {

class ShardContent;

// What pulls are answered with: references to blocks, copies of rows, and what
// is made of either on the way.
//
// Not thread-safe: lives inside the content.
class ContentPulls {
 public:
  // Head and payload of an answer have at most so many bytes together. What is
  // read of rows that lie on `disk`, which may be null, is read ahead.
  ContentPulls(ShardContent* content, size_t max_reply_bytes, DiskMemory* disk)
      : content_(*content), max_reply_bytes_(max_reply_bytes), disk_(disk) {}

  // Blocks whose version is not the known one, by reference, or packed where
  // the reader takes that and it pays, and then copies of the rows that are
  // named. Refused as WRONG_OWNER, INVALID (no such slice or block, unknown
  // encoding) or OVER_LIMIT (a reply too long, or no memory to encode it).
  // REQUIRES: filled. `names`: the numbers or keys of those rows. INVALID also
  // if they are not the blocks'.
  absl::Status Pull(const v1::PullRequest& request, const BufferChain& names,
                    v1::PullReply* reply, BufferChain* payload);

  // Forgets packed blocks, where memory is short.
  void DropPacked() { packed_.clear(); }
  // Pulls that were answered.
  uint64_t count() const { return count_; }

 private:
  // Blocks of a pull, and how many rows of them.
  struct WantedRows {
    Slice* slice;
    int block;
    uint32_t rows;
    size_t first_id = 0;
  };
  absl::StatusOr<std::vector<WantedRows>> FindRows(
      const v1::RowBlocks& rows) const;
  // Has read at once what of the rows lies on the disk.
  void ReadAhead(const std::vector<WantedRows>& wanted);
  // For what a pull is answered with. Refused as OVER_LIMIT, for now.
  absl::StatusOr<Buffer> AllocateReply(uint64_t bytes);
  // Both add to the `bytes` of the answer.
  absl::Status PullBlocks(const v1::PullRequest& request, NumberFormat format,
                          uint64_t* bytes, v1::PullReply* reply,
                          BufferChain* payload);
  absl::Status PullRows(const v1::PullRequest& request,
                        const BufferChain& names, NumberFormat format,
                        uint64_t* bytes, v1::PullReply* reply,
                        BufferChain* payload);
  absl::Status CheckReply(const v1::PullRequest& request, uint64_t bytes) const;
  // Of the wanted rows.
  absl::Status ReadNames(const BufferChain& names,
                         std::vector<WantedRows>* wanted);
  void CopyRows(const std::vector<WantedRows>& wanted, float* out);
  absl::StatusOr<Buffer> Encode(const Buffer& values, NumberFormat format);
  absl::StatusOr<Buffer> Encode(const Slice& slice, const Block& block,
                                NumberFormat format);
  // Packs a block of a pruned variable if that pays, once for all who pull this
  // version, and says so.
  absl::StatusOr<Buffer> Pack(const Slice& slice, const Block& block,
                              NumberFormat format, v1::PulledBlock* pulled);
  struct PackedBlock {
    uint64_t life;
    uint64_t counter;
    NumberFormat format;
    uint32_t nonzero;
    Buffer bytes;  // Empty: it does not pay.
  };
  absl::StatusOr<PackedBlock> MakePacked(const Block& block,
                                         NumberFormat format);

  ShardContent& content_;
  const size_t max_reply_bytes_;
  DiskMemory* const disk_;
  RowIdList ids_;  // Of the call at hand.
  // Of pruned variables, by slice and block: what was pulled last.
  std::map<std::pair<uint32_t, uint32_t>, PackedBlock> packed_;
  uint64_t count_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_CONTENT_PULLS_H_
