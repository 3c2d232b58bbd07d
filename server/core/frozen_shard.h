#ifndef PARAMD_SERVER_CORE_FROZEN_SHARD_H_
#define PARAMD_SERVER_CORE_FROZEN_SHARD_H_

#include <memory>

#include "proto/paramd/v1/storage.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "server/core/shard_content.h"
#include "tensor/buffer.h"

namespace paramd {

// What a sealed snapshot holds of a server, as the work of writing it: values,
// slots, counts and records alike. The payload refers to the blocks' bytes
// without copying one; pushes that come later are written elsewhere as long as
// it exists (see Block).
//
// A tensor per slice and one more per slot, named by Slice::TensorName.
struct FrozenShard {
  std::unique_ptr<v1::WriteShard> head;
  BufferChain payload;
};

// REQUIRES: content.fork() is sealed. `file` says what is known of the file already: name, server, generation.
FrozenShard Freeze(const ShardContent& content, const std::string& directory,
                   const v1::ShardFile& file);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_FROZEN_SHARD_H_
