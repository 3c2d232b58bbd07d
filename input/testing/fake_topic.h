#ifndef PARAMD_INPUT_TESTING_FAKE_TOPIC_H_
#define PARAMD_INPUT_TESTING_FAKE_TOPIC_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "base/random.h"
#include "input/topic.h"

namespace paramd {

// A topic in memory, whose gaps and ends are as a test makes them.
//
// Not thread-safe.
class FakeTopic : public Topic {
 public:
  explicit FakeTopic(uint32_t partitions) : partitions_(partitions) {}

  // Adds a message behind the last one; none leaves its offset without one.
  void Add(uint32_t partition, const std::string& message) {
    Partition& one = partitions_[partition];
    one.messages[one.ends.end++] = {message, {}};
  }
  // The same of one with a key and a time.
  void AddKeyed(uint32_t partition, const std::string& key, int64_t time_ms,
                const std::string& message) {
    Partition& one = partitions_[partition];
    one.messages[one.ends.end++] = {message, {StableHash(key), time_ms, true}};
  }
  void AddGap(uint32_t partition, uint64_t offsets = 1) {
    partitions_[partition].ends.end += offsets;
  }
  // Messages before `begin` are there no more.
  void Delete(uint32_t partition, uint64_t begin) {
    partitions_[partition].ends.begin = begin;
  }
  void Truncate(uint32_t partition, uint64_t end) {
    partitions_[partition].ends.end = end;
  }
  void SetPartitions(uint32_t partitions) { partitions_.resize(partitions); }
  void SetError(absl::Status error) { error_ = std::move(error); }
  // How often Read was called.
  int reads() const { return reads_; }

  std::string name() const override { return "topic 'clicks'"; }
  absl::StatusOr<std::vector<Ends>> FindEnds(
      const std::atomic<bool>* /*stopped*/) override {
    if (!error_.ok()) return error_;
    std::vector<Ends> ends;
    for (const Partition& one : partitions_) ends.push_back(one.ends);
    return ends;
  }
  absl::StatusOr<std::vector<uint64_t>> FindTime(
      absl::Time time, const std::vector<Ends>& ends) override {
    if (!error_.ok()) return error_;
    std::vector<uint64_t> offsets;
    for (size_t p = 0; p < ends.size(); ++p) {
      uint64_t offset = ends[p].end;
      for (const auto& [at, one] : partitions_[p].messages) {
        if (at < ends[p].begin) continue;
        if (one.stamp.time_ms < absl::ToUnixMillis(time)) continue;
        offset = std::min(offset, at);
        break;
      }
      offsets.push_back(offset);
    }
    return offsets;
  }
  absl::StatusOr<Messages> Read(uint32_t partition, uint64_t begin,
                                uint64_t end) override {
    ++reads_;
    if (!error_.ok()) return error_;
    const Partition& one = partitions_[partition];
    Messages messages;
    if (one.ends.begin > begin) {
      messages.gone_begin = begin;
      messages.gone_end = std::min(one.ends.begin, end);
    }
    for (const auto& [offset, message] : one.messages) {
      if (offset < std::max(begin, one.ends.begin) || offset >= end) continue;
      messages.list.push_back({messages.content.size(),
                               static_cast<uint32_t>(message.value.size()),
                               offset});
      messages.stamps.push_back(message.stamp);
      messages.content += message.value;
    }
    return messages;
  }
  Wait waiting() const override { return {}; }
  void Stop() override {}

 private:
  struct Message {
    std::string value;
    Stamp stamp;
  };
  struct Partition {
    Ends ends;
    std::map<uint64_t, Message> messages;
  };

  std::vector<Partition> partitions_;
  absl::Status error_;
  int reads_ = 0;
};

}  // namespace paramd

#endif  // PARAMD_INPUT_TESTING_FAKE_TOPIC_H_
