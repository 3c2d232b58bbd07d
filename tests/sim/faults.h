#ifndef PARAMD_TESTS_SIM_FAULTS_H_
#define PARAMD_TESTS_SIM_FAULTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "base/random.h"

namespace paramd {

// How badly the network behaves: chances are per message.
struct Faults {
  absl::Duration shortest_delay = absl::Microseconds(50);
  absl::Duration longest_delay = absl::Milliseconds(5);
  // A straggler takes up to `straggler_delay` instead.
  double straggle = 0;
  absl::Duration straggler_delay = absl::Seconds(2);
  double lose_request = 0;
  double lose_reply = 0;
  // The request comes twice.
  double duplicate = 0;
  // The sender is told UNAVAILABLE and the request comes all the same, later.
  double ghost = 0;
  absl::Duration ghost_delay = absl::Seconds(20);
  // A reply comes twice, or after its deadline.
  double second_reply = 0;

  // A network for one seed: now and then a perfect one, or one with a single
  // kind of fault; mostly several at once.
  static Faults Draw(RandomStream* random);
  // "lose_request=0.05 …": what is not zero.
  std::string ToString() const;
};

// How often a fault hit a message, by the message's type: a test that never
// met the rare case proves nothing about it.
class FaultCounts {
 public:
  void Count(absl::string_view fault, absl::string_view type);
  void Add(const FaultCounts& other);
  uint64_t Of(absl::string_view fault, absl::string_view type) const;
  // All faults that hit messages of this type, or whatever it stands for.
  uint64_t OfType(absl::string_view type) const;
  // A line for each fault and type.
  std::string ToString() const;

 private:
  std::map<std::string, uint64_t> counts_;
};

}  // namespace paramd

#endif  // PARAMD_TESTS_SIM_FAULTS_H_
