#ifndef PARAMD_COORDINATOR_CORE_EPOCHS_H_
#define PARAMD_COORDINATOR_CORE_EPOCHS_H_

#include <cstdint>
#include <vector>

#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Whether it says that nothing more comes, in place of an epoch.
bool IsEnd(const v1::EpochFiles& found);

// The epochs of a job, counted from 1, and how many examples each has. Those of
// a training set that grows are not all known: each is the files, or the
// messages of a topic, that were found at one time.
//
// Not thread-safe.
class Epochs {
 public:
  // Each has so many examples. REQUIRES: `epochs` > 0.
  Epochs(uint64_t examples, uint32_t epochs);
  // Of a training set that grows: none is known, and there are `most` at most.
  static Epochs Growing(uint32_t most);

  // That are known.
  uint32_t number() const { return number_; }
  // Of an epoch; 0: it is not known.
  uint64_t ExamplesOf(uint32_t epoch) const;
  // What it consists of; null if the training set does not grow, or the epoch
  // is not known.
  const v1::EpochFiles* FilesOf(uint32_t epoch) const;
  bool grows() const { return grows_; }
  // No other epoch will come.
  bool complete() const { return !grows_ || ended_ || number_ >= most_; }

  // The next one was found, or, if IsEnd, there is none. False, and no
  // change, if this is not the next one, has no examples, or if they are
  // complete.
  bool Add(const v1::EpochFiles& found);

 private:
  explicit Epochs(uint32_t most) : grows_(true), most_(most) {}

  bool grows_ = false;
  uint32_t most_ = 0;
  uint64_t examples_ = 0;  // Of each, if the training set does not grow.
  uint32_t number_ = 0;
  bool ended_ = false;
  std::vector<v1::EpochFiles> found_;  // Bound: the configuration log's.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_EPOCHS_H_
