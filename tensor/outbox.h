#ifndef PARAMD_TENSOR_OUTBOX_H_
#define PARAMD_TENSOR_OUTBOX_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/log_field.h"
#include "tensor/message.h"

namespace paramd {

// What a core wants done after one event; it has no other way out. The core
// fills it, the transport empties it. Order within one outbox is kept for
// messages to one peer as long as the transport keeps order at all.
//
// Not thread-safe: lives for one call of one core.
class Outbox {
 public:
  using Head = paramd::Head;

  struct ReplyItem {
    CallId call;
    absl::Status status;
    Head head;  // Null if status is not OK.
    BufferChain payload;
  };
  // A request. The transport answers it exactly once with a reply Message, or
  // with a failed one (UNAVAILABLE, DEADLINE_EXCEEDED …) at `deadline` at the
  // latest. A failed call may have been carried out.
  struct SendItem {
    PeerId to;
    CallId call;
    Head head;
    BufferChain payload;
    absl::Duration deadline;
  };
  // Work outside the cores; its type is that of `head`. Ends in one Completed.
  struct IoItem {
    IoId io;
    Head head;
    BufferChain payload;
  };

  void Reply(CallId call, Head head, BufferChain payload = {}) {
    replies.push_back(
        {call, absl::OkStatus(), std::move(head), std::move(payload)});
  }
  // REQUIRES: !refusal.ok().
  void Refuse(CallId call, absl::Status refusal) {
    replies.push_back({call, std::move(refusal), nullptr, {}});
  }
  void Send(PeerId to, CallId call, Head head, BufferChain payload,
            absl::Duration deadline) {
    sends.push_back({to, call, std::move(head), std::move(payload), deadline});
  }
  void StartIo(IoId io, Head head, BufferChain payload = {}) {
    ios.push_back({io, std::move(head), std::move(payload)});
  }
  // One sentence for the log, lower case, without a full stop; and what stands
  // in it, for who reads the log by program.
  struct NoteItem {
    LogLevel level;
    std::string sentence;
    std::vector<LogField> said;
  };
  void Note(std::string sentence, std::vector<LogField> said = {}) {
    notes.push_back({LogLevel::kInfo, std::move(sentence), std::move(said)});
  }
  // The same of what somebody should look at.
  void Warn(std::string sentence, std::vector<LogField> said = {}) {
    notes.push_back({LogLevel::kWarning, std::move(sentence), std::move(said)});
  }
  // Memory is short: of the answers that are being sent for long, the one begun
  // first is given up, so that what it holds is free.
  void CancelOldestReply() { cancels_oldest_reply = true; }
  // This process is done: it ends with `status` (OK: exit 0) once what is in
  // this outbox has been sent.
  void Exit(absl::Status status) {
    exited = true;
    exit_status = std::move(status);
  }

  std::vector<ReplyItem> replies;
  std::vector<SendItem> sends;
  std::vector<IoItem> ios;
  std::vector<NoteItem> notes;
  bool cancels_oldest_reply = false;
  bool exited = false;
  absl::Status exit_status;
};

}  // namespace paramd

#endif  // PARAMD_TENSOR_OUTBOX_H_
