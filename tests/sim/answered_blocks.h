#ifndef PARAMD_TESTS_SIM_ANSWERED_BLOCKS_H_
#define PARAMD_TESTS_SIM_ANSWERED_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/types/optional.h"

#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/types.pb.h"

namespace paramd {

// What a server answered of a block of a push, whole or some of its rows.
struct AnsweredBlock {
  uint32_t slice = 0;
  uint32_t block = 0;
  v1::PushedBlock::Result result = v1::PushedBlock::RESULT_UNSPECIFIED;
  // As the request and the answer say, if they do.
  v1::BlockVersion computed_on;
  absl::optional<v1::BlockVersion> version;
};

// All that are answered for: whole ones, then those with rows. Those beyond the
// request's have no result.
std::vector<AnsweredBlock> AnsweredBlocks(const v1::PushRequest& request,
                                          const v1::PushReply& reply);

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_ANSWERED_BLOCKS_H_
