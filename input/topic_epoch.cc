#include "input/topic_epoch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "input/sources.h"

namespace paramd {
namespace {

// A worker that reads a small part of them all fetches them whole; fewer cost
// more round trips.
constexpr uint64_t kSegmentOffsets = 4096;
// Of an epoch, as in a file that grows.
constexpr uint64_t kMostOffsets = 0xffffffff;
// Of a partition, with room for a window behind it.
constexpr uint64_t kMostOffset = uint64_t{1} << 62;

}  // namespace

absl::StatusOr<std::unique_ptr<TopicEpoch>> TopicEpoch::Create(
    const Context& context, const v1::EpochFiles& epoch) {
  std::unique_ptr<TopicEpoch> opened(new TopicEpoch(context));
  for (const v1::EpochFiles::Partition& partition : epoch.partitions()) {
    if (partition.end() < partition.begin() ||
        partition.end() - partition.begin() > kMostOffsets - opened->size_) {
      return absl::FailedPreconditionError(absl::StrCat(
          "epoch ", epoch.epoch(), " has the offsets ", partition.begin(),
          " to ", partition.end(), " of partition ", partition.number(),
          ", which no epoch can have"));
    }
    if (context.join != nullptr &&
        (partition.clicks_begin() > partition.begin() ||
         partition.clicks_end() < partition.end() ||
         partition.clicks_end() > kMostOffset)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "epoch ", epoch.epoch(), " looks for clicks among the offsets ",
          partition.clicks_begin(), " to ", partition.clicks_end(),
          " of partition ", partition.number(), ", which do not enclose ",
          partition.begin(), " to ", partition.end()));
    }
    opened->Add(partition);
  }
  if (opened->size_ == epoch.examples() && opened->size_ > 0) return opened;
  return absl::FailedPreconditionError(
      absl::StrCat("epoch ", epoch.epoch(), " has ", epoch.examples(),
                   " examples, and its partitions ", opened->size_));
}

void TopicEpoch::Add(const v1::EpochFiles::Partition& partition) {
  for (uint64_t begin = partition.begin(); begin < partition.end();) {
    auto segment = std::make_unique<Segment>();
    segment->partition = partition.number();
    segment->begin = begin;
    segment->end = std::min(begin + kSegmentOffsets, partition.end());
    segment->index = size_;
    segment->first = begin == partition.begin();
    segment->clicks_begin = partition.clicks_begin();
    segment->clicks_end = partition.clicks_end();
    size_ += segment->end - begin;
    begin = segment->end;
    segments_.push_back(std::move(segment));
  }
}

v1::DataSet TopicEpoch::Describe() const {
  return DescribeFiles(spec(), size_, /*checksum=*/0);
}

TopicEpoch::Segment& TopicEpoch::SegmentOf(uint64_t index) const {
  const auto behind = std::upper_bound(
      segments_.begin(), segments_.end(), index,
      [](uint64_t i, const auto& segment) { return i < segment->index; });
  return **std::prev(behind);
}

absl::Status TopicEpoch::Read(uint64_t index, Example* example) const {
  Segment& segment = SegmentOf(index);
  if (!segment.is_fetched.load(std::memory_order_acquire)) {
    RETURN_IF_ERROR(Fetch(&segment));
  }
  const uint32_t row = segment.rows[index - segment.index];
  if (row < kNoKey) {
    RETURN_IF_ERROR(segment.source->Read(row, example));
    if (context_.join != nullptr) {
      context_.join->SetLabel(segment.clicked[row], example);
    }
    return absl::OkStatus();
  }
  if (row == kNoKey) {
    return absl::DataLossError(absl::StrCat(
        Where(index),
        ": has no key, by which input.train.kafka.join finds its click"));
  }
  CounterOf(row).fetch_add(1, std::memory_order_relaxed);
  example->dropped = true;
  return absl::OkStatus();
}

std::string TopicEpoch::Where(uint64_t index) const {
  const Segment& segment = SegmentOf(index);
  return absl::StrCat(context_.topic.name(), " partition ", segment.partition,
                      " offset ", segment.begin + index - segment.index);
}

std::vector<uint64_t> TopicEpoch::FileStarts() const {
  std::vector<uint64_t> starts;
  for (const auto& segment : segments_) {
    if (segment->first) starts.push_back(segment->index);
  }
  return starts;
}

absl::Status TopicEpoch::Fetch(Segment* segment) const {
  MutexLock fetching(&fetching_);
  if (segment->is_fetched.load(std::memory_order_relaxed)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(
      Topic::Messages messages,
      context_.topic.Read(segment->partition, segment->begin, segment->end));
  RETURN_IF_ERROR(
      CheckGone(context_.config, context_.topic, segment->partition, messages));
  std::vector<uint32_t> rows(segment->end - segment->begin, kNoMessage);
  for (uint64_t at = messages.gone_begin; at < messages.gone_end; ++at) {
    rows[at - segment->begin] = kGone;
  }
  if (context_.join != nullptr) {
    RETURN_IF_ERROR(Join(segment, &messages, &rows));
  }
  for (size_t i = 0; i < messages.list.size(); ++i) {
    rows[messages.list[i].offset - segment->begin] = static_cast<uint32_t>(i);
  }
  if (!messages.list.empty()) {
    OpenedSource source = context_.format.Open(InputFile::OfMessages(
        absl::StrCat(context_.topic.name(), " partition ", segment->partition),
        std::move(messages.content), std::move(messages.list)));
    // What is wrong with all of them is not skipped message by message.
    if (!source.ok()) {
      return absl::FailedPreconditionError(source.status().message());
    }
    segment->source = *std::move(source);
  }
  segment->rows = std::move(rows);
  segment->is_fetched.store(true, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status TopicEpoch::Join(Segment* segment, Topic::Messages* messages,
                              std::vector<uint32_t>* rows) const {
  ASSIGN_OR_RETURN(
      const std::vector<LabelJoin::Fate> fates,
      context_.join->Join({segment->partition, segment->begin, segment->end,
                           segment->clicks_begin, segment->clicks_end},
                          *messages));
  std::vector<InputFile::Message> examples;
  segment->clicked.clear();
  for (size_t i = 0; i < fates.size(); ++i) {
    const InputFile::Message& message = messages->list[i];
    const bool clicked = fates[i] == LabelJoin::Fate::kClicked;
    if (clicked || fates[i] == LabelJoin::Fate::kNotClicked) {
      examples.push_back(message);
      segment->clicked.push_back(clicked);
    } else {
      (*rows)[message.offset - segment->begin] = RowOf(fates[i]);
    }
  }
  messages->list = std::move(examples);
  return absl::OkStatus();
}

uint32_t TopicEpoch::RowOf(LabelJoin::Fate fate) {
  switch (fate) {
    case LabelJoin::Fate::kJoinedClick:
      return kJoinedClick;
    case LabelJoin::Fate::kLateClick:
      return kLateClick;
    case LabelJoin::Fate::kStrayClick:
      return kStrayClick;
    case LabelJoin::Fate::kNoKey:
      return kNoKey;
    case LabelJoin::Fate::kNotClicked:
    case LabelJoin::Fate::kClicked:
      break;
  }
  return kNoMessage;
}

std::atomic<uint64_t>& TopicEpoch::CounterOf(uint32_t row) const {
  switch (row) {
    case kGone:
      return context_.counters.gone_messages;
    case kJoinedClick:
      return context_.counters.joined_clicks;
    case kLateClick:
      return context_.counters.late_clicks;
    case kStrayClick:
      return context_.counters.stray_clicks;
    default:
      return context_.counters.empty_offsets;
  }
}

}  // namespace paramd
