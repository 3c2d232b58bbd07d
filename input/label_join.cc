#include "input/label_join.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"

namespace paramd {
namespace {

// Messages around are fetched and kept so many offsets at a time.
constexpr uint64_t kChunkOffsets = 4096;
// Of messages around, 24 bytes each: 100 MB. More than the largest window has
// on both sides.
constexpr size_t kMostEntries = size_t{4} << 20;

uint64_t Apart(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

// Times come from producers, and may be anything.
uint64_t TimeApart(int64_t a, int64_t b) {
  return static_cast<uint64_t>(std::max(a, b)) -
         static_cast<uint64_t>(std::min(a, b));
}

}  // namespace

// The messages of a range whose fate is open, found by their keys.
class LabelJoin::Keyed {
 public:
  struct Message {
    uint64_t key = 0;
    uint64_t offset = 0;
    int64_t time_ms = 0;
    size_t number = 0;
    bool is_click = false;
  };

  Keyed(const std::vector<Message>& messages, std::vector<Fate> fates,
        const v1::InputSource::Kafka::Join& config)
      : fates_(std::move(fates)),
        window_ms_(config.window_ms()),
        window_messages_(config.window_messages()) {
    for (const Message& message : messages) {
      open_[Key(message.key, message.is_click)].push_back(message);
    }
  }

  // What a message of a chunk is to those of the range. One that has met
  // another within the window is done with, so that very many of one key don't
  // meet each other.
  void Meet(const Entry& other, uint64_t offset) {
    const auto found = open_.find(Key(other.key, !other.is_click));
    if (found == open_.end()) return;
    std::vector<Message>& open = found->second;
    for (size_t i = 0; i < open.size();) {
      const Message& one = open[i];
      Fate& fate = fates_[one.number];
      const bool is_within = Apart(one.offset, offset) <= window_messages_;
      if (is_within && TimeApart(one.time_ms, other.time_ms) <= window_ms_) {
        fate = one.is_click ? Fate::kJoinedClick : Fate::kClicked;
        open[i] = open.back();
        open.pop_back();
        continue;
      }
      if (is_within && one.is_click) fate = Fate::kLateClick;
      ++i;
    }
    if (open.empty()) open_.erase(found);
  }

  std::vector<Fate> TakeFates() { return std::move(fates_); }

 private:
  using Key = std::pair<uint64_t, bool>;  // And whether it is a click's.

  std::vector<Fate> fates_;  // By number.
  const uint64_t window_ms_;
  const uint64_t window_messages_;
  absl::flat_hash_map<Key, std::vector<Message>> open_;
};

absl::StatusOr<std::unique_ptr<LabelJoin>> LabelJoin::Create(
    const v1::InputSource::Kafka& config, const InputSpec& spec, Topic* topic) {
  const std::string& name = config.join().label();
  const FeatureSpec* const label = spec.Find(name);
  if (label == nullptr) {
    std::string there;
    for (const FeatureSpec& feature : spec.features) {
      absl::StrAppend(&there, there.empty() ? "'" : ", '", feature.name, "'");
    }
    return absl::InvalidArgumentError(
        absl::StrCat("input.train.kafka.join.label is '", name,
                     "', which examples do not have; they have ", there));
  }
  if (label->ragged || label->size() != 1 || label->classes == 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("input.train.kafka.join.label is '", name,
                     "', which is not a single value that can be 0 and 1"));
  }
  const auto place = static_cast<size_t>(label - spec.features.data());
  return std::unique_ptr<LabelJoin>(new LabelJoin(config, place, topic));
}

absl::StatusOr<std::vector<LabelJoin::Fate>> LabelJoin::Join(
    const Range& range, const Topic::Messages& messages) {
  std::vector<Fate> fates;
  std::vector<Keyed::Message> own;
  for (size_t i = 0; i < messages.list.size(); ++i) {
    const Topic::Stamp& stamp = messages.stamps[i];
    if (!stamp.has_key) {
      fates.push_back(Fate::kNoKey);
      continue;
    }
    const bool is_click = IsClick(messages, i);
    fates.push_back(is_click ? Fate::kStrayClick : Fate::kNotClicked);
    own.push_back(
        {stamp.key, messages.list[i].offset, stamp.time_ms, i, is_click});
  }
  if (own.empty()) return fates;
  Keyed keyed(own, std::move(fates), config_.join());
  const uint64_t window = config_.join().window_messages();
  const uint64_t begin =
      std::max(range.clicks_begin, range.begin - std::min(range.begin, window));
  const uint64_t end = std::min(range.clicks_end, range.end + window);
  MutexLock lock(&mutex_);
  for (uint64_t at = begin; at < end;) {
    const uint64_t base = at - at % kChunkOffsets;
    ASSIGN_OR_RETURN(const Chunk* const chunk, ChunkOf(range, at));
    for (const Entry& entry : chunk->entries) {
      const uint64_t offset = base + entry.place;
      if (offset >= at && offset < end) keyed.Meet(entry, offset);
    }
    at = base + kChunkOffsets;
  }
  return keyed.TakeFates();
}

bool LabelJoin::IsClick(const Topic::Messages& messages, size_t number) const {
  const InputFile::Message& message = messages.list[number];
  return absl::StartsWith(
      absl::string_view(messages.content).substr(message.begin, message.bytes),
      config_.join().click());
}

// One that was read less far, since less of it was there, is read again; then
// as far as before, too, so that ranges by turns don't each read it again.
absl::StatusOr<const LabelJoin::Chunk*> LabelJoin::ChunkOf(const Range& range,
                                                           uint64_t offset) {
  const uint64_t base = offset - offset % kChunkOffsets;
  const uint64_t begin = std::max(base, range.clicks_begin);
  uint64_t end = std::min(base + kChunkOffsets, range.clicks_end);
  const auto found = chunks_.find({range.partition, base});
  if (found != chunks_.end() && found->second.begin <= begin &&
      found->second.end >= end) {
    found->second.last_use = ++uses_;
    return &found->second;
  }
  if (found != chunks_.end()) end = std::max(end, found->second.end);
  ASSIGN_OR_RETURN(const Topic::Messages messages,
                   topic_.Read(range.partition, begin, end));
  RETURN_IF_ERROR(CheckGone(config_, topic_, range.partition, messages));
  if (found != chunks_.end()) {
    entries_ -= found->second.entries.size();
    chunks_.erase(found);
  }
  MakeRoom();
  Chunk& chunk = chunks_[{range.partition, base}];
  chunk.begin = begin;
  chunk.end = end;
  chunk.last_use = ++uses_;
  chunk.entries.reserve(messages.list.size());
  for (size_t i = 0; i < messages.list.size(); ++i) {
    const Topic::Stamp& stamp = messages.stamps[i];
    if (!stamp.has_key) continue;
    chunk.entries.push_back(
        {stamp.key, stamp.time_ms,
         static_cast<uint32_t>(messages.list[i].offset - base),
         IsClick(messages, i)});
  }
  entries_ += chunk.entries.size();
  return &chunk;
}

void LabelJoin::MakeRoom() {
  while (!chunks_.empty() && entries_ + kChunkOffsets > kMostEntries) {
    const auto oldest = std::min_element(
        chunks_.begin(), chunks_.end(), [](const auto& a, const auto& b) {
          return a.second.last_use < b.second.last_use;
        });
    entries_ -= oldest->second.entries.size();
    chunks_.erase(oldest);
  }
}

void LabelJoin::SetLabel(bool clicked, Example* example) const {
  OwnedTensor& label = example->values[label_];
  switch (label.dtype()) {
    case DType::kFloat32:
      label.values<float>()[0] = clicked ? 1 : 0;
      return;
    case DType::kFloat64:
      label.values<double>()[0] = clicked ? 1 : 0;
      return;
    case DType::kInt32:
      label.values<int32_t>()[0] = clicked ? 1 : 0;
      return;
    case DType::kInt64:
      label.values<int64_t>()[0] = clicked ? 1 : 0;
      return;
    case DType::kUInt8:
      label.values<uint8_t>()[0] = clicked ? 1 : 0;
      return;
    case DType::kBFloat16:
    case DType::kFloat16:
      break;
  }
  CHECK(false, "no file has an example of this type");
}

}  // namespace paramd
