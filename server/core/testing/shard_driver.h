#ifndef PARAMD_SERVER_CORE_TESTING_SHARD_DRIVER_H_
#define PARAMD_SERVER_CORE_TESTING_SHARD_DRIVER_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "server/core/shard.h"
#include "server/core/testing/configurations.h"
#include "tensor/core.h"

namespace paramd::testing {

inline constexpr PeerId kChief = PeerId::Coordinator();

// Why a call was refused.
v1::Refusal::Reason ReasonOf(const absl::Status& refused);

// Names `rows` rows of a block, slice and block there.
void AddRows(const std::pair<uint32_t, uint32_t>& place, uint32_t rows,
             v1::RowBlocks* named);

// Calls a Shard as a transport would, one event at a time, and keeps what it
// answers. Time stands still unless told. Not thread-safe.
class ShardDriver {
 public:
  struct Answer {
    absl::Status status;
    Head head;
    BufferChain payload;
  };

  // Server `index` of MakeConfiguration: its incarnation is 100 + index.
  explicit ShardDriver(uint32_t index = 0);
  explicit ShardDriver(const Shard::Options& options);

  Shard& shard() { return shard_; }

  // Calls and returns without waiting; the answer can be taken when it is
  // there.
  CallId Begin(PeerId from, const google::protobuf::Message& head,
               BufferChain payload = {});
  bool answered(CallId call) const { return answers_.count(call) != 0; }
  // REQUIRES: answered(call).
  Answer Take(CallId call);
  // A call that is answered at once.
  Answer Call(PeerId from, const google::protobuf::Message& head,
              BufferChain payload = {}) {
    return Take(Begin(from, head, std::move(payload)));
  }
  // The same for the type of reply that is expected.
  template <typename Reply>
  absl::StatusOr<Reply> Ask(PeerId from, const google::protobuf::Message& head,
                            BufferChain payload = {}) {
    Answer answer = Call(from, head, std::move(payload));
    if (!answer.status.ok()) return answer.status;
    return static_cast<const Reply&>(*answer.head);
  }

  // The answer to a call that the shard sent.
  void Reply(PeerId from, CallId call, Answer answer);

  // Ticks as long as the shard wants to be ticked now; returns how often.
  int Settle();
  void Advance(absl::Duration duration);
  // Time passes without a tick, as when the process stands still.
  void StandStill(absl::Duration duration) { now_ = now_ + duration; }
  // Tells the shard to drain.
  void Drain();
  // Ends work that the shard started.
  void Complete(IoResult result);

  // Configures, fills, and expects the shard to be ready.
  void MakeReady(const v1::Configuration& configuration);
  absl::StatusOr<v1::ConfigureReply> Configure(
      const v1::Configuration& configuration,
      const v1::SnapshotNumber& committed = {});

  // A push of whole blocks by worker 1 of MakeConfiguration; (slice, block).
  using Place = std::pair<uint32_t, uint32_t>;
  v1::PushRequest MakePush(uint64_t sequence, const std::vector<Place>& blocks,
                           uint32_t elements) const;
  // Of Small().
  v1::PushRequest MakeSmallPush(uint64_t sequence) const {
    return MakePush(sequence, {{0, 0}}, 2);
  }
  absl::StatusOr<v1::PushReply> Push(const v1::PushRequest& request,
                                     const std::vector<float>& gradient) {
    return Ask<v1::PushReply>(PeerId::Worker(request.header().worker()),
                              request, Payload(gradient));
  }
  // All numbers of one block.
  std::vector<float> Pull(uint32_t slice, uint32_t block = 0);

  std::vector<Outbox::IoItem> ios;
  std::vector<Outbox::SendItem> sends;  // To its backup.
  std::vector<std::string> notes;
  int replies_given_up = 0;  // How often the shard wanted one to be.
  bool exited = false;
  absl::Status exit_status;

 private:
  void Collect(Outbox* out);

  Shard shard_;
  Time now_ = Time::FromNanoseconds(1);
  CallId next_call_ = 1;
  std::map<CallId, Answer> answers_;
};

}  // namespace paramd::testing

#endif  // PARAMD_SERVER_CORE_TESTING_SHARD_DRIVER_H_
