#ifndef PARAMD_INPUT_TOPIC_H_
#define PARAMD_INPUT_TOPIC_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "input/file.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// The messages of a topic, each at an offset of a partition. A partition grows
// at its end, and is deleted from its beginning; offsets between may have no
// message (they were compacted away, or mark the end of a transaction).
//
// Thread-safe.
class Topic {
 public:
  // Of a partition: its first message lies at `begin` or behind, its last one
  // before `end`.
  struct Ends {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  // What a message has beside its value.
  struct Stamp {
    uint64_t key = 0;  // A hash of it.
    int64_t time_ms = 0;
    bool has_key = false;
  };
  // Those of some offsets in a row, ascending; offsets without one, or with one
  // that has no value, are left out.
  struct Messages {
    std::string content;
    std::vector<InputFile::Message> list;
    std::vector<Stamp> stamps;  // Of each of them.
    // They were deleted before they were read; none if both are the same.
    uint64_t gone_begin = 0;
    uint64_t gone_end = 0;
  };

  virtual ~Topic() = default;

  // "topic 'clicks'".
  virtual std::string name() const = 0;
  // Of partitions 0, 1, 2 and so on. UNAVAILABLE, saying why, if there is no
  // such topic or nobody answers: that may change. CANCELLED once `stopped`,
  // if it is given, is true; PERMISSION_DENIED if we may not read it.
  virtual absl::StatusOr<std::vector<Ends>> FindEnds(
      const std::atomic<bool>* stopped) = 0;
  // Of each partition, of which `ends` are known: the first offset whose
  // message has this time or a later one; the end, if none has. Errors as
  // FindEnds.
  virtual absl::StatusOr<std::vector<uint64_t>> FindTime(
      absl::Time time, const std::vector<Ends>& ends) = 0;
  // Those of the offsets [begin, end) of a partition. Waits for as long as they
  // can't be had. CANCELLED after Stop; PERMISSION_DENIED as above;
  // FAILED_PRECONDITION if the partition is no longer the one that had them.
  // REQUIRES: FindEnds, here or elsewhere, said that they are there.
  virtual absl::StatusOr<Messages> Read(uint32_t partition, uint64_t begin,
                                        uint64_t end) = 0;
  // For what Read waits, and for how long already: "topic 'clicks' partition 3
  // offset 17 at kafka-0:9092: connection refused". Empty: for nothing.
  struct Wait {
    std::string whom;
    absl::Duration since;
  };
  virtual Wait waiting() const = 0;
  // No Read waits any longer, now and later.
  virtual void Stop() = 0;
};

// FAILED_PRECONDITION if messages were deleted before they were read, unless
// the job skips those: then it warns.
absl::Status CheckGone(const v1::InputSource::Kafka& config, const Topic& topic,
                       uint32_t partition, const Topic::Messages& messages);

}  // namespace paramd

#endif  // PARAMD_INPUT_TOPIC_H_
