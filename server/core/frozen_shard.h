#ifndef PARAMD_SERVER_CORE_FROZEN_SHARD_H_
#define PARAMD_SERVER_CORE_FROZEN_SHARD_H_

#include <memory>

#include "proto/paramd/v1/control.pb.h"
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
// A tensor per slice and one more per slot, named by Slice::TensorName. Where
// it is known that an earlier file has most of the numbers, it refers to that
// one as its base, and its tensors are runs of blocks that have changed since.
struct FrozenShard {
  std::unique_ptr<v1::WriteShard> head;
  BufferChain payload;
};

// The file that `request` asks for, of which `file` says what is known already:
// name, server, generation. Notes in the content what a file with all blocks
// has. REQUIRES: content->fork() is sealed.
FrozenShard Freeze(const v1::SealRequest& request, const v1::ShardFile& file,
                   ShardContent* content);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_FROZEN_SHARD_H_
