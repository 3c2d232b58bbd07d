#include "server/core/local_shard_file.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace paramd {

LocalShardFile::LocalShardFile(BufferChain bytes)
    : bytes_(std::move(bytes)), total_(ChainSize(bytes_)) {}

BufferChain LocalShardFile::Window(uint64_t offset, uint64_t limit) const {
  CHECK(offset <= total_, "a window begins inside the file");
  ChainReader reader(bytes_);
  for (uint64_t left = offset; left > 0;) left -= reader.Next(left).size();
  return reader.Take(std::min(limit, total_ - offset));
}

}  // namespace paramd
