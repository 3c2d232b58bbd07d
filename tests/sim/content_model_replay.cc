// What the numbers of a block must be by its story.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "tests/sim/content_model.h"

namespace paramd {

float ContentModel::Wanted(const Content& content, uint32_t block, uint64_t e,
                           int slot) const {
  const IntegerJob::BlockPlace& place = job_.blocks()[block];
  const std::vector<PartStory>& parts = content.blocks[block].parts;
  const uint64_t elements = place.elements / parts.size();
  const PartStory& part = parts[e / elements];
  if (slot >= 0) {
    return part.slots.empty() ? 0 : part.slots[slot * elements + e % elements];
  }
  return part.values.empty()
             ? job_.ValueOf(place.variable, place.first_element + e, part.sum)
             : part.values[e % elements];
}

std::vector<float> ContentModel::WantedOf(uint32_t block,
                                          const Content& content) const {
  std::vector<float> wanted;
  for (uint64_t e = 0; e < job_.blocks()[block].elements; ++e) {
    wanted.push_back(Wanted(content, block, e, /*slot=*/-1));
  }
  return wanted;
}

absl::StatusOr<std::vector<float>> ContentModel::WantedRowsOf(
    uint32_t block, uint32_t rows, const Content& content,
    ChainReader* names) const {
  std::vector<float> wanted;
  ASSIGN_OR_RETURN(const std::vector<uint64_t> named,
                   job_.ReadRows(block, rows, names));
  const uint64_t width = RowElements(job_.blocks()[block].variable);
  for (const uint64_t row : named) {
    for (uint64_t e = row * width; e < (row + 1) * width; ++e) {
      wanted.push_back(Wanted(content, block, e, /*slot=*/-1));
    }
  }
  return wanted;
}

absl::Status ContentModel::CheckPulled(const ServerLife& life, uint32_t block,
                                       const std::vector<float>& wanted,
                                       NumberFormat format,
                                       ChainReader* reader) const {
  const size_t size = BytesOf(format);
  std::vector<std::byte> rounded(wanted.size() * size);
  EncodeNumbers(format, wanted.data(), wanted.size(), rounded.data());
  std::vector<std::byte> pulled(rounded.size());
  if (!reader->Read(absl::MakeSpan(pulled))) {
    return absl::DataLossError("a pull's answer is too short");
  }
  for (size_t e = 0; e < wanted.size(); ++e) {
    if (std::memcmp(&pulled[e * size], &rounded[e * size], size) == 0) continue;
    float is = 0;
    DecodeNumbers(format, &pulled[e * size], 1, &is);
    return absl::DataLossError(
        absl::StrCat("element ", e, " of block ", block, " of ps-", life.first,
                     " as generation ", life.second.first, "-",
                     life.second.second, " is ", is, ", not ", wanted[e],
                     ": its ", contents_.at(life).blocks[block].pushes.size(),
                     " pushes are not what is in it"));
  }
  return absl::OkStatus();
}

absl::optional<uint64_t> ContentModel::ReadBefore(
    const AnsweredBlock& pushed, const ServerLife& life) const {
  const auto of = life_of_.find({life, pushed.slice});
  if (of == life_of_.end() || pushed.computed_on.life() != of->second) {
    return absl::nullopt;
  }
  return pushed.computed_on.counter();
}

std::vector<size_t> ContentModel::PartsFor(const Applied& applied,
                                           BlockStory* story,
                                           Counts* counts) const {
  const auto [push, block, read] = applied;
  const PushLedger::Push& known = ledger_.push(push);
  const size_t group = job_.GroupOf(known.batch, block);
  if (!job_.variables()[job_.blocks()[block].variable].keyed()) return {group};
  if (known.coefficients[block] == 0) return {};
  if (story->keys.has_value()) return KeysFor(applied, story, counts);
  PartStory& part = story->parts[group];
  if (!part.has_rows) {
    const auto has_rows = [](const PartStory& p) { return p.has_rows; };
    std::vector<PartStory>& parts = story->parts;
    if (static_cast<size_t>(std::count_if(
            parts.begin(), parts.end(), has_rows)) == job_.most_groups(block)) {
      if (job_.ignores_new_keys()) {
        ++counts->parts_ignored;
        return {};
      }
      PartStory* oldest = nullptr;
      for (PartStory& other : parts) {
        if (!other.has_rows) continue;
        if (oldest == nullptr || other.used < oldest->used) oldest = &other;
      }
      *oldest = PartStory();
      ++counts->parts_evicted;
    }
    part.has_rows = true;
    ++counts->parts_created;
  }
  part.used = story->pushes.size() + 1;
  return {group};
}

std::vector<size_t> ContentModel::KeysFor(const Applied& applied,
                                          BlockStory* story,
                                          Counts* counts) const {
  const IntegerJob::BlockPlace& place = job_.blocks()[applied.block];
  const BatchPlace& batch = ledger_.push(applied.push).batch;
  const size_t keys = job_.PartsOfGroup(applied.block);
  const size_t first = job_.GroupOf(batch, applied.block) * keys;
  const auto mixed =
      absl::MakeConstSpan(job_.keys())
          .subspan(place.first_element / RowElements(place.variable) + first,
                   keys);
  KeyStory::Named named =
      story->keys->Push(mixed, first, story->pushes.size() + 1);
  for (const size_t key : named.lost) story->parts[key] = PartStory();
  for (const size_t key : named.created) story->parts[key].has_rows = true;
  counts->parts_created += named.created.size();
  counts->parts_evicted += named.evicted;
  counts->parts_ignored += named.ignored;
  counts->keys_not_admitted += named.not_admitted;
  counts->keys_expired += named.expired;
  std::vector<size_t> changed = std::move(named.kept);
  changed.insert(changed.end(), named.created.begin(), named.created.end());
  return changed;
}

void ContentModel::Replay(const Applied& applied, uint64_t before, size_t index,
                          PartStory* part) const {
  const IntegerJob::BlockPlace& place = job_.blocks()[applied.block];
  const PushLedger::Push& known = ledger_.push(applied.push);
  const float coefficient = known.coefficients[applied.block];
  const uint64_t elements = place.elements / job_.parts(applied.block);
  const uint64_t begin = place.first_element + index * elements;
  const bool is_new = part->values.empty();
  std::vector<float> gradient;
  for (uint64_t e = begin; e < begin + elements; ++e) {
    const float first = job_.ValueOf(place.variable, e, 0);
    if (is_new) part->values.push_back(first);
    gradient.push_back(first - job_.ValueOf(place.variable, e, coefficient));
  }
  ApplyOptions options;
  options.variable = optimizer_.OptionsOf(job_.variables()[place.variable]);
  // Which rows keys have is not of the story.
  options.variable.keyed = options.variable.sketched = false;
  const uint64_t width =
      options.variable.sparse ? RowElements(place.variable) : 1;
  size_t words = 0;
  for (const Slot& slot : optimizer_.slots(options.variable)) {
    words += slot.words(elements, width);
  }
  part->slots.resize(words);
  const BufferChain chain = {Buffer::Copy(AsBytes<float>(gradient))};
  ChainReader reader(chain);
  // Rows that are not named stay, whatever the optimizer does with zeros.
  if (options.variable.sparse && coefficient == 0) return;
  if (applied.read.has_value() && *applied.read <= before) {
    options.staleness = before - *applied.read;
  }
  const Optimizer::Arrays arrays = {.elements = elements,
                                    .values = part->values.data(),
                                    .slots = part->slots.data(),
                                    .new_values = part->values.data(),
                                    .new_slots = part->slots.data()};
  if (!options.variable.sparse) {
    return optimizer_.Apply(&reader, before, arrays, options);
  }
  std::vector<uint32_t> rows(elements / width);
  std::iota(rows.begin(), rows.end(), 0);
  optimizer_.ApplyRows(&reader, before, {rows, width}, arrays, options);
}

}  // namespace paramd
