#include "tests/sim/answered_blocks.h"

#include <utility>

namespace paramd {
namespace {

v1::BlockVersion ComputedOn(const v1::PushRequest& request,
                            const v1::PushedBlock& pushed) {
  for (const v1::PushBlock& block : request.blocks()) {
    if (block.slice() == pushed.slice() && block.block() == pushed.block()) {
      return block.computed_on();
    }
  }
  return {};
}

}  // namespace

std::vector<AnsweredBlock> AnsweredBlocks(const v1::PushRequest& request,
                                          const v1::PushReply& reply) {
  std::vector<AnsweredBlock> blocks;
  for (const v1::PushedBlock& pushed : reply.blocks()) {
    blocks.push_back({pushed.slice(), pushed.block(), pushed.result(),
                      ComputedOn(request, pushed), pushed.version()});
  }
  const v1::RowBlocks& rows = request.rows();
  const v1::BlockVersions& read = request.rows_computed_on();
  for (int i = 0; i < reply.row_results_size(); ++i) {
    AnsweredBlock& block = blocks.emplace_back();
    if (i >= rows.rows_size()) continue;
    block.slice = rows.slices(i);
    block.block = rows.blocks(i);
    block.result = reply.row_results(i);
    if (read.lives_size() == 0) continue;
    block.computed_on.set_life(read.lives(i));
    block.computed_on.set_counter(read.counters(i));
  }
  return blocks;
}

}  // namespace paramd
