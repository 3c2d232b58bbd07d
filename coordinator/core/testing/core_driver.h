#ifndef PARAMD_COORDINATOR_CORE_TESTING_CORE_DRIVER_H_
#define PARAMD_COORDINATOR_CORE_TESTING_CORE_DRIVER_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"

#include "tensor/core.h"

namespace paramd::testing {

// Calls a core as a transport would, one event at a time, and keeps what it
// wants done. Time stands still unless told. Not thread-safe; the core outlives
// it.
class CoreDriver {
 public:
  struct Answer {
    absl::Status status;
    Outbox::Head head;
  };

  explicit CoreDriver(Core* core) : core_(core) {}

  void Start();

  // ---- calls to the core
  CallId Begin(PeerId from, const google::protobuf::Message& head);
  bool answered(CallId call) const { return answers_.count(call) != 0; }
  // REQUIRES: answered(call).
  Answer Take(CallId call);
  Answer Call(PeerId from, const google::protobuf::Message& head) {
    return Take(Begin(from, head));
  }

  // ---- calls of the core
  // The oldest call with a head of this type, to `to` if given.
  template <typename Head>
  absl::optional<Outbox::SendItem> TakeSend(
      absl::optional<PeerId> to = absl::nullopt) {
    const auto found = std::find_if(
        sends.begin(), sends.end(), [&](const Outbox::SendItem& item) {
          return dynamic_cast<const Head*>(item.head.get()) != nullptr &&
                 (!to.has_value() || *to == item.to);
        });
    if (found == sends.end()) return absl::nullopt;
    Outbox::SendItem item = std::move(*found);
    sends.erase(found);
    return item;
  }
  void Reply(const Outbox::SendItem& sent,
             const google::protobuf::Message& head, BufferChain payload = {});
  void Fail(const Outbox::SendItem& sent, absl::Status status);

  // ---- work of the core
  // The oldest work with a head of this type.
  template <typename Head>
  absl::optional<std::pair<IoId, Head>> TakeIo() {
    const auto found =
        std::find_if(ios.begin(), ios.end(), [](const Outbox::IoItem& item) {
          return dynamic_cast<const Head*>(item.head.get()) != nullptr;
        });
    if (found == ios.end()) return absl::nullopt;
    std::pair<IoId, Head> io(found->io, static_cast<const Head&>(*found->head));
    ios.erase(found);
    return io;
  }
  template <typename Head>
  void Complete(IoId io, const Head& head, BufferChain payload = {}) {
    End(io, absl::OkStatus(), std::make_unique<Head>(head), std::move(payload));
  }
  void End(IoId io, absl::Status status, Outbox::Head head = nullptr,
           BufferChain payload = {});

  // ---- time
  Time now() const { return now_; }
  // Ticks whenever the core wants it, until `duration` has passed; fails if it
  // wants more ticks than one each millisecond.
  void Advance(absl::Duration duration);
  // As long as a job that has failed waits for its processes to hear of it.
  void LetAllHear() { Advance(absl::Minutes(2)); }
  // Time passes without a tick, as when the process stands still.
  void StandStill(absl::Duration duration) { now_ = now_ + duration; }
  // Ticks once, now.
  void Tick();
  // Tells the core to drain.
  void Drain();
  // Another core of its process has failed.
  void FailBeside(const absl::Status& why);

  bool HasNote(const std::string& part) const;
  bool HasWarning(const std::string& part) const;

  std::vector<Outbox::SendItem> sends;
  std::vector<Outbox::IoItem> ios;
  std::vector<std::string> notes;  // Warnings among them.
  std::vector<std::string> warnings;
  bool exited = false;
  absl::Status exit_status;

 private:
  void Receive(Message message);
  void Collect(Outbox* out);

  Core* const core_;
  Time now_ = Time::FromNanoseconds(1'000'000'000);
  CallId next_call_ = 1;
  std::map<CallId, Answer> answers_;
};

}  // namespace paramd::testing

#endif  // PARAMD_COORDINATOR_CORE_TESTING_CORE_DRIVER_H_
