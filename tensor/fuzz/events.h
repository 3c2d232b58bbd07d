#ifndef PARAMD_TENSOR_FUZZ_EVENTS_H_
#define PARAMD_TENSOR_FUZZ_EVENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paramd::fuzz {

// What happens to a core next, as a fuzz target's input has it:
//
//   kind (1 byte)  who (1)  which (1)  size of type (1)  type
//   size of head (2 bytes, the lowest first)  head  size of payload (2) payload
struct Event {
  enum class Kind : uint8_t {
    // Peer `who` (PeerOf) calls, with a request of `type`.
    kCall,
    // Of the calls of the core that are open, number `which` (from the oldest
    // on, again from the first behind the last) has the answer `head`, of the
    // type of its reply whatever `type` says.
    kAnswer,
    // The same fails with status code `who`; of type "Refusal", by the peer,
    // which says why in the head.
    kFail,
    // Of the work under way, number `which` ends with the result `head` of
    // `type`; without a type, with none.
    kDone,
    // The same fails with status code `who`.
    kUndone,
    // Time passes: 2^`who` microseconds; from 64 on, until the core wants it.
    kTime,
    // The process is to end.
    kDrain,
  };
  static constexpr int kKinds = 7;

  Kind kind = Kind::kTime;
  uint8_t who = 0;
  uint8_t which = 0;
  std::string type;  // "PullRequest", of paramd.v1.
  std::string head;  // Serialized.
  std::string payload;
};

// Every input is a list of events: what is cut off is empty.
std::vector<Event> ReadEvents(absl::string_view bytes);
std::string WriteEvents(const std::vector<Event>& events);

// A change of one or two events, which follows from the seed: a field of a
// message, an event that comes once more, is left out or changes places.
void MutateEvents(uint64_t seed, std::vector<Event>* events);

}  // namespace paramd::fuzz

#endif  // PARAMD_TENSOR_FUZZ_EVENTS_H_
