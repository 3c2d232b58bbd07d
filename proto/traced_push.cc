#include "proto/traced_push.h"

#include <algorithm>

#include "proto/paramd/v1/data.pb.h"

namespace paramd {

absl::optional<TracedPush> TracedPushOf(
    const google::protobuf::Message& request) {
  const auto* const push =
      google::protobuf::DynamicCastToGenerated<v1::PushRequest>(&request);
  if (push == nullptr) return absl::nullopt;
  const v1::Header& header = push->header();
  TracedPush traced;
  traced.flow = header.request_id();
  traced.numbers = {{"worker", header.worker()},
                    {"term", header.generation().term()},
                    {"session", header.generation().counter()},
                    {"push", header.sequence()}};
  if (push->step() > 0) traced.numbers.emplace_back("step", push->step());
  // Columns may be of any length by a stranger's word.
  const v1::RowBlocks& rows = push->rows();
  const int of_rows = std::min(rows.slices_size(), rows.blocks_size());
  const auto blocks = static_cast<uint64_t>(push->blocks_size() + of_rows);
  traced.numbers.emplace_back("block_count", blocks);
  int left = TracedPush::kMostBlocks;
  for (const v1::PushBlock& block : push->blocks()) {
    if (left-- <= 0) return traced;
    traced.numbers.emplace_back("slice", block.slice());
    traced.numbers.emplace_back("block", block.block());
  }
  for (int i = 0; i < of_rows && left-- > 0; ++i) {
    traced.numbers.emplace_back("slice", rows.slices(i));
    traced.numbers.emplace_back("block", rows.blocks(i));
  }
  return traced;
}

}  // namespace paramd
