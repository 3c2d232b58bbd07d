#ifndef PARAMD_COORDINATOR_CORE_COORDINATOR_H_
#define PARAMD_COORDINATOR_CORE_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/status.h"

#include "coordinator/core/coordinator_options.h"
#include "proto/paramd/v1/status.pb.h"
#include "tensor/core.h"

namespace paramd {

class Dispatcher;
class FailedJob;

// Decides everything that must be the same everywhere: members and their
// generations, the layout, snapshots, the input's portions, the end. Its parts,
// and their order, are in `dispatcher.h`. If the job fails for good, by itself
// or because of another core of the process, it becomes a FailedJob before it
// exits.
//
// Not thread-safe: a core. It keeps nothing of its caller's.
class Coordinator : public Core {
 public:
  using Options = CoordinatorOptions;

  explicit Coordinator(const Options& options);
  ~Coordinator() override;

  void Start(Time now, Outbox* out) override;
  void Receive(Message message, Time now, Outbox* out) override;
  void Completed(IoResult result, Time now, Outbox* out) override;
  void Tick(Time now, Outbox* out) override;
  Time next_tick() const override;
  // Takes a checkpoint, tells the servers that drain too, and leaves when the
  // chief's own worker has left; before the job runs, or where the end is being
  // written, it goes on as ever or leaves at once.
  void Drain(Time now, Outbox* out) override;
  // Tells everybody, if the failure is the job's and others are in it.
  void Fail(const absl::Status& why, Time now, Outbox* out) override;

  // Whom everything waits for, and why; empty: nobody.
  std::string waiting_for() const;
  std::string overdue(Time now) const override;
  void FillStatus(v1::StatusReply* status) const;

 private:
  // In place of the exit in `out`: first whoever has to hear of it does.
  void TellFailure(const absl::Status& why, Time now, Outbox* out);
  void TellOwnFailure(Time now, Outbox* out);

  const std::unique_ptr<Dispatcher> dispatcher_;
  std::unique_ptr<FailedJob> failed_;  // Null: the dispatcher is asked.
};

}  // namespace paramd

#endif  // PARAMD_COORDINATOR_CORE_COORDINATOR_H_
