#ifndef PARAMD_PROTO_INPUT_CURSOR_H_
#define PARAMD_PROTO_INPUT_CURSOR_H_

#include <cstdint>

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Goes through what is left of a job's input as the steps of sync mode do:
// first what remains of portions, in order, then each epoch from where it was
// left. A step takes from one range only, so the last one of a range may be
// short. Everybody who starts from the same SavedInput and takes the same
// numbers finds the same steps.
//
// Not thread-safe.
class InputCursor {
 public:
  // Examples [begin, end) of an epoch's order.
  struct Range {
    uint32_t epoch = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t size() const { return end - begin; }
  };

  // At the end.
  InputCursor() { left_.set_next_epoch(1); }
  // Ranges that the job does not have are left out.
  InputCursor(const v1::SavedInput& left, uint64_t examples, uint32_t epochs);

  bool finished() const;
  // What the next step takes: at most `most` examples. REQUIRES: not
  // finished(), `most` > 0.
  Range Next(uint64_t most) const;
  // Goes on after it.
  void Advance(uint64_t most);

  // Epochs of which nothing is left.
  uint32_t epochs_finished() const;
  // Share of all examples of all epochs that is not left, times epochs.
  double epochs_done() const;
  // The same as text of the manifest.
  const v1::SavedInput& left() const { return left_; }

 private:
  // Drops what is empty.
  void Normalize();

  v1::SavedInput left_;
  uint64_t examples_ = 0;
  uint32_t epochs_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_PROTO_INPUT_CURSOR_H_
