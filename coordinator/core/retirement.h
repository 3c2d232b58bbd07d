#ifndef PARAMD_COORDINATOR_CORE_RETIREMENT_H_
#define PARAMD_COORDINATOR_CORE_RETIREMENT_H_

#include <vector>

#include "coordinator/core/retired_checkpoints.h"
#include "coordinator/core/turn.h"
#include "proto/paramd/v1/storage.pb.h"

namespace paramd {

// Deletes checkpoints that need not stay.
//
// Invariant: none is deleted before the log has it as retired.
//
// Not thread-safe: a part of the coordinator's core.
class Retirement {
 public:
  // An entry of the log that is being read.
  void Read(const v1::SnapshotNumber& retired) { retired_.Read(retired); }
  // All that the log has.
  const std::vector<v1::SnapshotNumber>& logged() const {
    return retired_.logged();
  }

  // What a chief that died has retired may still be there.
  void DeleteLogged(Turn* turn);
  // These need not stay any more.
  void Retire(const google::protobuf::RepeatedPtrField<v1::SnapshotNumber>& old,
              Turn* turn);
  // Nothing is being deleted.
  bool idle() const { return deletions_ == 0; }

 private:
  void OnLogged(const IoResult& result, Turn* turn);
  void Delete(const std::vector<v1::SnapshotNumber>& retired, Turn* turn);

  RetiredCheckpoints retired_;
  int deletions_ = 0;  // Under way.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_RETIREMENT_H_
