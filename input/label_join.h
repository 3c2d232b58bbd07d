#ifndef PARAMD_INPUT_LABEL_JOIN_H_
#define PARAMD_INPUT_LABEL_JOIN_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "base/mutex.h"
#include "input/batch.h"
#include "input/example.h"
#include "input/topic.h"
#include "proto/paramd/v1/input.pb.h"

namespace paramd {

// Labels that come later, as messages of the same partition with the example's
// key: which examples of a topic were clicked.
//
// Invariant: nothing is held. What becomes of a message depends on the messages
// around it alone, as far as the chief says that they are looked at, so whoever
// reads it at any time finds the same label. What was read of messages around
// (key, time, click or not: 24 bytes each) stays for the next ones, up to a
// limit. Keys are compared by their hashes of 64 bits.
//
// Thread-safe.
class LabelJoin {
 public:
  // What becomes of a message.
  enum class Fate : uint8_t {
    kNotClicked,
    kClicked,
    // The others are no examples. Of a click: there is an example within the
    // window; only one whose time is further away; none.
    kJoinedClick,
    kLateClick,
    kStrayClick,
    kNoKey,
  };
  // Offsets [begin, end) of a partition, and those among which their clicks
  // are looked for. They enclose the others, and are below 2^63.
  struct Range {
    uint32_t partition = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t clicks_begin = 0;
    uint64_t clicks_end = 0;
  };

  // INVALID_ARGUMENT if examples have no such label, or one of several values.
  // `config` and `topic` outlive it. REQUIRES: config has join.
  static absl::StatusOr<std::unique_ptr<LabelJoin>> Create(
      const v1::InputSource::Kafka& config, const InputSpec& spec,
      Topic* topic);

  // Of each of `messages`, which are those of the range. As Topic::Read, which
  // it calls for those around; FAILED_PRECONDITION also if some of these were
  // deleted, unless the job skips them.
  absl::StatusOr<std::vector<Fate>> Join(const Range& range,
                                         const Topic::Messages& messages)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the label of an example. REQUIRES: it is of the spec.
  void SetLabel(bool clicked, Example* example) const;

 private:
  // A message of those around.
  struct Entry {
    uint64_t key = 0;
    int64_t time_ms = 0;
    uint32_t place = 0;  // Its offset, from the first of the chunk.
    bool is_click = false;
  };
  // Messages of offsets in a row.
  struct Chunk {
    uint64_t begin = 0;
    uint64_t end = 0;
    std::vector<Entry> entries;
    uint64_t last_use = 0;
  };
  class Keyed;

  LabelJoin(const v1::InputSource::Kafka& config, size_t label, Topic* topic)
      : config_(config), label_(label), topic_(*topic) {}

  bool IsClick(const Topic::Messages& messages, size_t number) const;
  // That with this offset, as far as the range's clicks are looked for. Valid
  // until the next call.
  absl::StatusOr<const Chunk*> ChunkOf(const Range& range, uint64_t offset)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets those that were not used for longest, until there is room for one.
  void MakeRoom() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::InputSource::Kafka& config_;
  const size_t label_;  // The feature.
  Topic& topic_;
  Mutex mutex_;  // One thread looks around.
  // By partition and first offset.
  std::map<std::pair<uint32_t, uint64_t>, Chunk> chunks_
      ABSL_GUARDED_BY(mutex_);
  size_t entries_ ABSL_GUARDED_BY(mutex_) = 0;  // In all of them.
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_LABEL_JOIN_H_
