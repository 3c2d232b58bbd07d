// What the numbers of a block must be by its story.
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/sim/content_model.h"

namespace paramd {

float ContentModel::Wanted(const Content& content, uint32_t block, uint64_t e,
                           int slot) const {
  const IntegerJob::BlockPlace& place = job_.blocks()[block];
  const BlockStory& story = content.blocks[block];
  if (slot >= 0) {
    return story.slots.empty() ? 0 : story.slots[slot * place.elements + e];
  }
  return story.values.empty() ? job_.ValueOf(place.variable,
                                             place.first_element + e, story.sum)
                              : story.values[e];
}

absl::Status ContentModel::CheckPulled(const ServerLife& life, uint32_t block,
                                       const Content& content,
                                       NumberFormat format,
                                       ChainReader* reader) const {
  std::vector<float> wanted;
  for (uint64_t e = 0; e < job_.blocks()[block].elements; ++e) {
    wanted.push_back(Wanted(content, block, e, /*slot=*/-1));
  }
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
    return absl::DataLossError(absl::StrCat(
        "element ", e, " of block ", block, " of ps-", life.first,
        " as generation ", life.second.first, "-", life.second.second, " is ",
        is, ", not ", wanted[e], ": its ", content.blocks[block].pushes.size(),
        " pushes are not what is in it"));
  }
  return absl::OkStatus();
}

absl::optional<uint64_t> ContentModel::ReadBefore(
    const v1::PushRequest& request, const v1::PushedBlock& pushed,
    const ServerLife& life) const {
  const auto of = life_of_.find({life, pushed.slice()});
  for (const v1::PushBlock& block : request.blocks()) {
    if (block.slice() != pushed.slice() || block.block() != pushed.block()) {
      continue;
    }
    const v1::BlockVersion& read = block.computed_on();
    if (of == life_of_.end() || read.life() != of->second) break;
    return read.counter();
  }
  return absl::nullopt;
}

void ContentModel::Replay(const Applied& applied, BlockStory* story) const {
  const IntegerJob::BlockPlace& place = job_.blocks()[applied.block];
  const float coefficient =
      ledger_.push(applied.push).coefficients[applied.block];
  std::vector<float> gradient;
  for (uint64_t e = place.first_element;
       e < place.first_element + place.elements; ++e) {
    const float first = job_.ValueOf(place.variable, e, 0);
    if (story->pushes.empty()) story->values.push_back(first);
    gradient.push_back(first - job_.ValueOf(place.variable, e, coefficient));
  }
  ApplyOptions options;
  options.variable = optimizer_.OptionsOf(job_.variables()[place.variable]);
  story->slots.resize(place.elements *
                      optimizer_.slots(options.variable).size());
  const BufferChain chain = {Buffer::Copy(AsBytes<float>(gradient))};
  ChainReader reader(chain);
  const uint64_t before = story->pushes.size();
  // Rows that are not named stay, whatever the optimizer does with zeros.
  if (options.variable.sparse && coefficient == 0) return;
  if (applied.read.has_value() && *applied.read <= before) {
    options.staleness = before - *applied.read;
  }
  const Optimizer::Arrays arrays = {.elements = place.elements,
                                    .values = story->values.data(),
                                    .slots = story->slots.data(),
                                    .new_values = story->values.data(),
                                    .new_slots = story->slots.data()};
  if (!options.variable.sparse) {
    return optimizer_.Apply(&reader, before, arrays, options);
  }
  const size_t width = job_.variables()[place.variable].shape(1);
  std::vector<uint32_t> rows(place.elements / width);
  std::iota(rows.begin(), rows.end(), 0);
  optimizer_.ApplyRows(&reader, before, {rows, width}, arrays, options);
}

}  // namespace paramd
