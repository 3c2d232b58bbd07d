#ifndef PARAMD_TESTS_SIM_TRACE_H_
#define PARAMD_TESTS_SIM_TRACE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "tensor/message.h"

namespace paramd {

// The events of a simulation, told as one number and, if wanted, as lines on
// stdout. Equal hashes: the same events in the same order.
//
// Not thread-safe.
class EventTrace {
 public:
  struct Event {
    int64_t at = 0;  // Nanoseconds of simulated time.
    absl::string_view kind;
    PeerId node;
    PeerId from;  // The other end of a message; else `node`.
    bool is_message = false;
    const google::protobuf::Message* head = nullptr;
    // HashOf(head), where it is known already.
    uint64_t head_hash = 0;
    uint32_t payload_crc = 0;
    size_t payload_bytes = 0;
    absl::Status status;
  };

  explicit EventTrace(bool verbose) : verbose_(verbose) {}

  void Add(const Event& event);
  // What a core has to say; no part of the hash.
  void AddNote(int64_t at, PeerId node, absl::string_view note) const;

  // Over every event: time, kind, nodes, type, head, payload and status.
  uint64_t hash() const { return hash_; }
  // Of a head's type and bytes; 0 if there is none.
  static uint64_t HashOf(const google::protobuf::Message* head);

 private:
  void Mix(uint64_t value);
  void Print(const Event& event) const;

  const bool verbose_;
  uint64_t hash_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_TRACE_H_
