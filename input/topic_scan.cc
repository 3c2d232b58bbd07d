#include "input/topic_scan.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"

namespace paramd {
namespace {

using Kafka = v1::InputSource::Kafka;
using Partition = v1::EpochFiles::Partition;

absl::Status GoneError(const Topic& topic, uint32_t number, uint64_t begin,
                       uint64_t end) {
  return absl::FailedPreconditionError(
      absl::StrCat(topic.name(), " has deleted offsets ", begin, " to ",
                   end - 1, " of partition ", number,
                   " before they were found; to go on without them, give "
                   "input.train.kafka \"on_gone\": \"skip\""));
}

// Looks once; what it finds becomes the result.
class Scan {
 public:
  Scan(const Kafka& config, const v1::ScanInput& request,
       std::vector<Topic::Ends> ends, std::vector<uint64_t> decided,
       const Topic& topic)
      : config_(config),
        request_(request),
        ends_(std::move(ends)),
        decided_(std::move(decided)),
        topic_(topic) {}

  absl::StatusOr<v1::ScanInputResult> Run() {
    RETURN_IF_ERROR(Check());
    for (uint32_t p = 0; p < ends_.size(); ++p) {
      if (known_.count(p) == 0) RETURN_IF_ERROR(Begin(p));
    }
    if (result_.found().partitions_size() > 0) {
      result_.set_more(true);
      return std::move(result_);
    }
    if (MostInAnEpoch() > 0) RETURN_IF_ERROR(FindNew());
    Share();
    result_.set_ended(IsAtEnd());
    return std::move(result_);
  }

 private:
  bool skips_gone() const { return config_.on_gone() == Kafka::ON_GONE_SKIP; }

  // What was found before is still there.
  absl::Status Check() {
    for (const Partition& partition : request_.partitions()) {
      known_[partition.number()] = &partition;
    }
    if (!known_.empty() && known_.rbegin()->first >= ends_.size()) {
      const Partition& last = *known_.rbegin()->second;
      return absl::FailedPreconditionError(absl::StrCat(
          topic_.name(), " has ", ends_.size(),
          " partitions; the run has read partition ", last.number(),
          " up to offset ", last.end(), ": it is another topic"));
    }
    for (const auto& [number, partition] : known_) {
      if (ends_[number].end >= partition->end()) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          topic_.name(), " partition ", number, " ends at offset ",
          ends_[number].end, "; the run has found messages up to offset ",
          partition->end(), ": it is another topic, or has lost them"));
    }
    const auto offsets = static_cast<size_t>(config_.offsets_size());
    if (known_.empty() && offsets > ends_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input.train.kafka.offsets has ", offsets, " offsets; ",
                       topic_.name(), " has ", ends_.size(), " partitions"));
    }
    return absl::OkStatus();
  }

  // Says where partition `p` begins.
  absl::Status Begin(uint32_t p) {
    const Topic::Ends& ends = ends_[p];
    // One that was added later has nothing that was there before.
    const bool is_first = known_.empty();
    uint64_t begin = ends.begin;
    uint64_t gone = 0;
    if (is_first && static_cast<int>(p) < config_.offsets_size()) {
      begin = config_.offsets(static_cast<int>(p));
      if (begin > ends.end) {
        return absl::InvalidArgumentError(absl::StrCat(
            "input.train.kafka.offsets[", p, "] is ", begin, "; ",
            topic_.name(), " partition ", p, " ends at offset ", ends.end));
      }
      if (begin < ends.begin) {
        if (!skips_gone()) return GoneError(topic_, p, begin, ends.begin);
        gone = ends.begin - begin;
        begin = ends.begin;
      }
    } else if (is_first && config_.from() == Kafka::FROM_LATEST) {
      begin = ends.end;
    }
    Partition& found = *result_.mutable_found()->add_partitions();
    found.set_number(p);
    found.set_begin(begin);
    found.set_end(begin);
    found.set_gone(gone);
    if (config_.until() == Kafka::UNTIL_LATEST) {
      found.set_last(is_first ? ends.end : begin);
    }
    return absl::OkStatus();
  }

  // Where each partition has more than was found, what it has.
  absl::Status FindNew() {
    for (const auto& [number, known] : known_) {
      const Topic::Ends& ends = ends_[number];
      uint64_t end = ends.end;
      if (known->has_last()) end = std::min(end, known->last());
      if (!decided_.empty()) end = Decided(*known, end);
      Partition next = *known;
      next.set_begin(known->end());
      next.set_gone(0);
      const uint64_t first = std::min(ends.begin, end);
      if (known->end() < first) {
        if (!skips_gone()) {
          return GoneError(topic_, number, known->end(), first);
        }
        next.set_gone(first - known->end());
        next.set_begin(first);
      }
      if (next.begin() >= end && next.gone() == 0) continue;
      next.set_end(std::max(next.begin(), end));
      new_.push_back(std::move(next));
    }
    return absl::OkStatus();
  }

  // Up to where the messages of a partition, which go up to `end`, are not held
  // any more.
  uint64_t Decided(const Partition& known, uint64_t end) {
    const uint64_t decided =
        std::min(end, std::max(decided_[known.number()], known.end()));
    result_.set_held(result_.held() + end - decided);
    return decided;
  }

  // Where the clicks of these messages are looked for: around all of them, also
  // of none before an end of the input that the topic has deleted.
  void SayWhereClicksAre(Partition* partition) const {
    const uint64_t window = config_.join().window_messages();
    const Topic::Ends& ends = ends_[partition->number()];
    const uint64_t begin = partition->begin();
    partition->set_clicks_begin(
        std::min(begin, std::max(ends.begin, begin - std::min(begin, window))));
    partition->set_clicks_end(std::min(ends.end, partition->end() + window));
  }

  uint64_t MostInAnEpoch() const {
    uint64_t most = std::max<uint64_t>(config_.epoch_messages(), 1);
    if (config_.max_messages() > 0) {
      most = std::min(
          most, config_.max_messages() -
                    std::min(config_.max_messages(), request_.examples()));
    }
    return most;
  }

  // Makes an epoch of it: as much of each partition, as far as it has that.
  void Share() {
    uint64_t left = MostInAnEpoch();
    std::vector<Partition*> by_size;
    for (Partition& partition : new_) by_size.push_back(&partition);
    const auto size = [](const Partition& one) {
      return one.end() - one.begin();
    };
    std::stable_sort(by_size.begin(), by_size.end(),
                     [&](const Partition* a, const Partition* b) {
                       return size(*a) < size(*b);
                     });
    uint64_t examples = 0;
    for (size_t i = 0; i < by_size.size(); ++i) {
      const uint64_t sharers = by_size.size() - i;
      const uint64_t share = (left + sharers - 1) / sharers;
      if (size(*by_size[i]) > share) {
        result_.set_more(true);
        by_size[i]->set_end(by_size[i]->begin() + share);
      }
      left -= size(*by_size[i]);
      examples += size(*by_size[i]);
    }
    for (Partition& partition : new_) {
      if (size(partition) == 0 && partition.gone() == 0) continue;
      if (config_.has_join()) SayWhereClicksAre(&partition);
      *result_.mutable_found()->add_partitions() = std::move(partition);
    }
    result_.mutable_found()->set_examples(examples);
  }

  // With what was found now nothing is left that the input shall have.
  bool IsAtEnd() const {
    const uint64_t examples = request_.examples() + result_.found().examples();
    if (config_.max_messages() > 0 && examples >= config_.max_messages()) {
      return true;
    }
    std::map<uint32_t, const Partition*> newest = known_;
    for (const Partition& found : result_.found().partitions()) {
      newest[found.number()] = &found;
    }
    return std::all_of(newest.begin(), newest.end(), [](const auto& one) {
      return one.second->has_last() && one.second->end() >= one.second->last();
    });
  }

  const Kafka& config_;
  const v1::ScanInput& request_;
  const std::vector<Topic::Ends> ends_;
  const std::vector<uint64_t> decided_;  // As ends_; empty without a join.
  const Topic& topic_;
  std::map<uint32_t, const Partition*> known_;  // By number.
  std::vector<Partition> new_;
  v1::ScanInputResult result_;
};

// Of each partition, the offset before which the window of all has passed.
absl::StatusOr<std::vector<uint64_t>> FindDecided(
    const Kafka::Join& config, const std::vector<Topic::Ends>& ends,
    absl::Time now, Topic* topic) {
  const absl::Time time = now - absl::Milliseconds(config.window_ms());
  ASSIGN_OR_RETURN(std::vector<uint64_t> decided, topic->FindTime(time, ends));
  for (size_t p = 0; p < ends.size(); ++p) {
    const uint64_t end = ends[p].end;
    const uint64_t window = config.window_messages();
    decided[p] = std::max(decided[p], end - std::min(end, window));
  }
  return decided;
}

}  // namespace

absl::StatusOr<v1::ScanInputResult> ScanTopic(
    const v1::InputSource::Kafka& config, const v1::ScanInput& request,
    absl::Time now, const std::atomic<bool>* stopped, Topic* topic) {
  ASSIGN_OR_RETURN(std::vector<Topic::Ends> ends, topic->FindEnds(stopped));
  std::vector<uint64_t> decided;
  if (config.has_join()) {
    ASSIGN_OR_RETURN(decided, FindDecided(config.join(), ends, now, topic));
  }
  return Scan(config, request, std::move(ends), std::move(decided), *topic)
      .Run();
}

}  // namespace paramd
