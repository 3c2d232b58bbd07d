#ifndef PARAMD_SERVER_CORE_PUSH_DECISION_H_
#define PARAMD_SERVER_CORE_PUSH_DECISION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/paramd/v1/data.pb.h"
#include "server/core/applied_pushes.h"
#include "server/core/slice.h"

namespace paramd {

// A block of a chunk, and what becomes of it.
struct PushDecision {
  Slice* slice;
  uint32_t place;  // Of the slice, in the layout.
  int block;
  AppliedPushes::Admission admission;
  size_t elements;         // Of its gradient.
  uint32_t rows = 0;       // Of a sparse variable: that the gradient is of.
  size_t first_id = 0;     // Of those rows.
  double mean_square = 0;  // Of its gradient, if spike_factor is set.
  // Version that the gradient was computed on; 0: not known.
  uint64_t read_life = 0;
  uint64_t read_counter = 0;

  // Of the names of its rows; 0 where all of the block is pushed.
  size_t id_bytes() const { return rows * slice->row_id_bytes(); }
  // Answers for this block.
  void Answer(v1::PushedBlock::Result result, v1::PushReply* reply) const;
};

// Of the names of all rows.
size_t IdBytes(const std::vector<PushDecision>& decisions);

// What a push is answered of a block that was admitted so.
v1::PushedBlock::Result ResultOf(AppliedPushes::Admission admission);

}  // namespace paramd

#endif  // PARAMD_SERVER_CORE_PUSH_DECISION_H_
