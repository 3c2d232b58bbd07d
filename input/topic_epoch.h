#ifndef PARAMD_INPUT_TOPIC_EPOCH_H_
#define PARAMD_INPUT_TOPIC_EPOCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "input/example_source.h"
#include "input/label_join.h"
#include "input/message_format.h"
#include "input/topic.h"
#include "proto/paramd/v1/snapshot.pb.h"

namespace paramd {

// Places that were read and had no message, or a click's.
struct TopicCounters {
  std::atomic<uint64_t> empty_offsets{0};
  std::atomic<uint64_t> gone_messages{0};
  std::atomic<uint64_t> joined_clicks{0};
  std::atomic<uint64_t> late_clicks{0};
  std::atomic<uint64_t> stray_clicks{0};
};

// An epoch of a topic: an example for each offset of its partitions, one behind
// the other. Offsets without a message, and those of clicks that labels are
// joined from, are dropped, as if a filter had left them out. Messages are
// fetched some thousands at a time, when the first of them is read, and are in
// memory until the epoch goes.
//
// Thread-safe.
class TopicEpoch : public ExampleSource {
 public:
  struct Context {
    const v1::InputSource::Kafka& config;
    const MessageFormat& format;
    const InputSpec& spec;
    Topic& topic;
    TopicCounters& counters;
    LabelJoin* join = nullptr;  // Null: messages have their labels.
  };

  // What `context` refers to outlives it. FAILED_PRECONDITION if `epoch` does
  // not go together: it came over the network.
  static absl::StatusOr<std::unique_ptr<TopicEpoch>> Create(
      const Context& context, const v1::EpochFiles& epoch);

  const InputSpec& spec() const override { return context_.spec; }
  uint64_t size() const override { return size_; }
  v1::DataSet Describe() const override;
  absl::Status Read(uint64_t index, Example* example) const override;
  std::string Where(uint64_t index) const override;
  // Of each partition.
  std::vector<uint64_t> FileStarts() const override;

 private:
  // Offsets in a row that are fetched together.
  struct Segment {
    uint32_t partition = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t index = 0;  // Of its first offset, in the epoch.
    bool first = false;  // Of its partition.
    // Where their clicks are looked for.
    uint64_t clicks_begin = 0;
    uint64_t clicks_end = 0;
    // Once they were fetched: the messages, null for none, and of each offset
    // which of them it has, or one of those below. With a join, which of the
    // messages were clicked.
    std::unique_ptr<ExampleSource> source;
    std::vector<uint32_t> rows;
    std::vector<bool> clicked;
    std::atomic<bool> is_fetched{false};
  };
  // No message has such a row.
  static constexpr uint32_t kNoMessage = 0xffffffff;
  static constexpr uint32_t kGone = 0xfffffffe;
  static constexpr uint32_t kJoinedClick = 0xfffffffd;
  static constexpr uint32_t kLateClick = 0xfffffffc;
  static constexpr uint32_t kStrayClick = 0xfffffffb;
  static constexpr uint32_t kNoKey = 0xfffffffa;

  explicit TopicEpoch(const Context& context) : context_(context) {}

  void Add(const v1::EpochFiles::Partition& partition);
  Segment& SegmentOf(uint64_t index) const;
  absl::Status Fetch(Segment* segment) const ABSL_LOCKS_EXCLUDED(fetching_);
  // Leaves the examples in `messages`, and says in `rows` what the others are.
  absl::Status Join(Segment* segment, Topic::Messages* messages,
                    std::vector<uint32_t>* rows) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(fetching_);
  static uint32_t RowOf(LabelJoin::Fate fate);
  std::atomic<uint64_t>& CounterOf(uint32_t row) const;

  const Context context_;
  uint64_t size_ = 0;
  mutable Mutex fetching_;  // One thread fetches.
  // In the order of their indices. A segment is written once, under fetching_,
  // before its is_fetched is (release), and read after that is seen (acquire).
  std::vector<std::unique_ptr<Segment>> segments_;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_TOPIC_EPOCH_H_
