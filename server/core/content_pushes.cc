#include "server/core/content_pushes.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/status_macros.h"
#include "config/wire_format.h"
#include "proto/refusal.h"
#include "server/core/fetch_rows.h"
#include "server/core/shard_content.h"

namespace paramd {
namespace {

// The index of a block that was named before. Sessions name blocks in order:
// then there is none.
absl::optional<size_t> NamedTwice(const std::vector<PushDecision>& blocks) {
  const auto id = [](const PushDecision& block) {
    return uint64_t{block.place} << 32 | static_cast<uint32_t>(block.block);
  };
  const auto unordered = std::adjacent_find(
      blocks.begin(), blocks.end(),
      [&](const auto& one, const auto& next) { return id(one) >= id(next); });
  if (unordered == blocks.end()) return absl::nullopt;
  absl::flat_hash_set<uint64_t> seen;
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (!seen.insert(id(blocks[i])).second) return i;
  }
  return absl::nullopt;
}

// Of no examples, and then of nothing; or the blocks of this chunk are none
// that the push has a gradient of.
bool IsEmpty(const v1::PushRequest& request) {
  return request.empty() || (request.step() > 0 && request.examples() == 0);
}

int BlocksIn(const v1::PushRequest& request) {
  return request.blocks_size() + request.rows().rows_size();
}

void Skip(size_t bytes, ChainReader* reader) {
  while (bytes > 0) {
    const size_t passed = reader->Next(bytes).size();
    CHECK(passed > 0, "the chain has all the bytes that are passed over");
    bytes -= passed;
  }
}

}  // namespace

void PushDecision::Answer(v1::PushedBlock::Result result,
                          v1::PushReply* reply) const {
  if (slice->sparse()) return reply->add_row_results(result);
  v1::PushedBlock* const pushed = reply->add_blocks();
  pushed->set_slice(place);
  pushed->set_block(static_cast<uint32_t>(block));
  pushed->set_result(result);
  // What is held has no version yet.
  if (result == v1::PushedBlock::HELD) return;
  *pushed->mutable_version() = slice->block(block).version();
}

size_t IdBytes(const std::vector<PushDecision>& decisions) {
  size_t bytes = 0;
  for (const PushDecision& decision : decisions) bytes += decision.id_bytes();
  return bytes;
}

v1::PushedBlock::Result ResultOf(AppliedPushes::Admission admission) {
  switch (admission) {
    case AppliedPushes::Admission::kApply:
      return v1::PushedBlock::APPLIED;
    case AppliedPushes::Admission::kAlreadyApplied:
      return v1::PushedBlock::ALREADY_APPLIED;
    case AppliedPushes::Admission::kSuperseded:
      return v1::PushedBlock::SUPERSEDED;
  }
  return v1::PushedBlock::RESULT_UNSPECIFIED;
}

ContentPushes::ContentPushes(ShardContent* content, double spike_factor)
    : content_(*content),
      spike_factor_(spike_factor),
      optimizer_(content->optimizer()),
      spare_(content->spare()),
      fork_(content->fork()) {}

uint64_t ContentPushes::BytesToApply(
    const v1::PushRequest& request,
    const std::vector<PushDecision>& decisions) const {
  uint64_t bytes = 0;
  for (const PushDecision& decision : decisions) {
    if (decision.admission != AppliedPushes::Admission::kApply) continue;
    if (decision.slice->sparse() && decision.rows == 0) continue;
    bytes += fork_.BytesToChange(request.header().snapshot(), *decision.slice,
                                 decision.block);
  }
  return bytes;
}

absl::Status ContentPushes::Push(const v1::PushRequest& request,
                                 const BufferChain& payload,
                                 v1::PushReply* reply) {
  if (request.step() > 0) {
    counts_.blocks_refused += BlocksIn(request);
    return Invalid("step", absl::StrCat("push is of step ", request.step(),
                                        "; only mode sync has steps"));
  }
  const auto decisions = Check(request, payload);
  if (!decisions.ok()) return decisions.status();
  fork_.Hear(request.header().snapshot());
  if (IsEmpty(request)) {
    Record(request, *decisions, reply);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(content_.MakeRoom(
      "a push", [&] { return BytesToApply(request, *decisions); }));
  ChainReader gradient(payload);
  Skip(IdBytes(*decisions), &gradient);  // They are read.
  const size_t element_bytes = BytesOf(*FormatOf(request.encoding()));
  reply->mutable_blocks()->Reserve(request.blocks_size());
  reply->mutable_row_results()->Reserve(request.rows().rows_size());
  size_t fetched = 0;
  for (size_t i = 0; i < decisions->size(); ++i) {
    if (i == fetched) fetched = FetchSome(*decisions, i, ids_, &optimizer_);
    const PushDecision& decision = (*decisions)[i];
    if (decision.admission == AppliedPushes::Admission::kApply) {
      Apply(request, decision, &gradient);
      decision.Answer(v1::PushedBlock::APPLIED, reply);
    } else {
      Skip(decision.elements * element_bytes, &gradient);
      decision.Answer(ResultOf(decision.admission), reply);
      ++counts_.blocks_repeated;
    }
  }
  return absl::OkStatus();
}

void ContentPushes::Record(const v1::PushRequest& request,
                           const std::vector<PushDecision>& decisions,
                           v1::PushReply* reply) {
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  for (const PushDecision& decision : decisions) {
    decision.Answer(ResultOf(decision.admission), reply);
    if (decision.admission != AppliedPushes::Admission::kApply) {
      ++counts_.blocks_repeated;
      continue;
    }
    AppliedPushes* const twin =
        fork_.BeforeRecord(request.header().snapshot(), *decision.slice);
    decision.slice->applied().MarkApplied(push, decision.block);
    if (twin != nullptr) twin->MarkApplied(push, decision.block);
  }
}

absl::StatusOr<std::vector<PushDecision>> ContentPushes::Check(
    const v1::PushRequest& request, const BufferChain& payload) {
  auto decisions = CheckPush(request, payload);
  if (decisions.ok()) return decisions;
  counts_.blocks_refused += BlocksIn(request);
  if (RefusalOf(decisions.status()).reason() == v1::Refusal::QUARANTINED) {
    counts_.blocks_quarantined += BlocksIn(request);
    quarantine_.Add(request.header(), decisions.status().message());
  }
  return decisions;
}

void ContentPushes::ApplySum(Slice* slice, int index, uint32_t rows,
                             ChainReader* gradient) {
  Block& block = slice->block(index);
  ids_.Clear();
  const auto first_id = ids_.Read(*slice, index, rows, gradient);
  CHECK(first_id.ok(), "a chunk is checked before it is summed");
  if (spike_factor_ > 0 && slice->options().has_usual_size()) {
    ChainReader ahead = *gradient;
    const double square = optimizer_.ReadMeanSquare(&ahead, block.elements());
    if (std::isfinite(square)) block.gradient_rms().Add(square);
  }
  block.ApplyRows(optimizer_, ids_.At(*slice, *first_id, rows), gradient,
                  &spare_,
                  {.staleness = 0,
                   .variable = slice->options(),
                   .first_element = slice->block_begin(index),
                   .prune_below = content_.pruning().ThresholdOf(*slice),
                   .prune_channels = content_.pruning().GoneChannelsOf(*slice)},
                  &slice->table_counts());
  ++counts_.blocks_applied;
}

void ContentPushes::Apply(const v1::PushRequest& request,
                          const PushDecision& decision, ChainReader* gradient) {
  const NumberFormat format = *FormatOf(request.encoding());
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  Slice* const slice = decision.slice;
  const int index = decision.block;
  const RowIds rows = ids_.At(*slice, decision.first_id, decision.rows);
  Block& block = slice->block(index);
  const SnapshotFork::Twin twin =
      fork_.BeforeChange(request.header().snapshot(), *slice, index);
  if (twin.block != nullptr) {
    ChainReader again = *gradient;
    TableCounts of_the_copy;
    ApplyTo(twin.block, OptionsOf(decision, *twin.block), decision, rows,
            NumberReader(&again, format), &of_the_copy);
  }
  const auto staleness = StalenessOf(decision, block);
  if (staleness.has_value()) staleness_.Add(*staleness);
  ApplyTo(&block, OptionsOf(decision, block), decision, rows,
          NumberReader(gradient, format), &slice->table_counts());
  slice->applied().MarkApplied(push, index);
  if (twin.record != nullptr) twin.record->MarkApplied(push, index);
  ++counts_.blocks_applied;
}

ApplyOptions ContentPushes::OptionsOf(const PushDecision& decision,
                                      const Block& block) const {
  return {.staleness = StalenessOf(decision, block).value_or(0),
          .variable = decision.slice->options(),
          .first_element = decision.slice->block_begin(decision.block)};
}

void ContentPushes::ApplyTo(Block* block, const ApplyOptions& options,
                            const PushDecision& decision, const RowIds& rows,
                            const NumberReader& gradient, TableCounts* counts) {
  if (spike_factor_ > 0 && options.variable.has_usual_size()) {
    block->gradient_rms().Add(decision.mean_square);
  }
  block->ApplyRows(optimizer_, rows, gradient, &spare_, options, counts);
}

// A read of other content (before a restore) says nothing.
absl::optional<uint64_t> ContentPushes::StalenessOf(
    const PushDecision& decision, const Block& block) const {
  if (decision.read_life != block.life() ||
      decision.read_counter > block.applied()) {
    return absl::nullopt;
  }
  return block.applied() - decision.read_counter;
}

absl::StatusOr<std::vector<PushDecision>> ContentPushes::CheckPush(
    const v1::PushRequest& request, const BufferChain& payload) {
  ASSIGN_OR_RETURN(const NumberFormat format,
                   CheckEncoding(request.encoding()));
  const PushId push{request.header().worker(), request.header().generation(),
                    request.header().sequence()};
  if (push.sequence == 0) {
    return Invalid("sequence", "push has sequence 0; the first one is 1");
  }
  const bool empty = IsEmpty(request);
  ASSIGN_OR_RETURN(std::vector<PushDecision> decisions,
                   CheckBlocks(request, push, empty));
  if (const auto twice = NamedTwice(decisions); twice.has_value()) {
    const PushDecision& decision = decisions[*twice];
    return Invalid(decision.slice->variable().name(),
                   absl::StrCat("chunk names block ", decision.block, " of '",
                                decision.slice->TensorName(), "' twice"));
  }
  const size_t received = ChainSize(payload);
  // No further than that: counts that a peer made up may wrap in their sum.
  uint64_t bytes = 0;
  for (const PushDecision& decision : decisions) {
    bytes += decision.id_bytes() + decision.elements * BytesOf(format);
    if (bytes > received) break;
  }
  if (bytes != received) {
    return Invalid("payload",
                   absl::StrCat("chunk has ", received,
                                " bytes of gradient; its blocks have ", bytes));
  }
  if (!empty) RETURN_IF_ERROR(CheckNumbers(payload, format, &decisions));
  return decisions;
}

absl::StatusOr<std::vector<PushDecision>> ContentPushes::CheckBlocks(
    const v1::PushRequest& request, const PushId& push, bool empty) const {
  std::vector<PushDecision> decisions;
  decisions.reserve(BlocksIn(request));
  for (const v1::PushBlock& block : request.blocks()) {
    ASSIGN_OR_RETURN(decisions.emplace_back(), CheckBlock(block, push, empty));
  }
  const v1::RowBlocks& rows = request.rows();
  RETURN_IF_ERROR(CheckColumns(rows));
  const v1::BlockVersions& read = request.rows_computed_on();
  if (read.lives_size() != read.counters_size() ||
      (read.lives_size() > 0 && read.lives_size() != rows.rows_size())) {
    return Invalid(
        "rows_computed_on",
        absl::StrCat("rows of ", rows.rows_size(), " blocks were computed on ",
                     read.lives_size(), " lives and ", read.counters_size(),
                     " counters: each block needs one of each, or none has"));
  }
  if (rows.rows_size() > 0 && request.empty() && request.examples() > 0) {
    return Invalid("empty",
                   absl::StrCat("rows of ", rows.rows_size(),
                                " blocks are of no examples, in a push of ",
                                request.examples()));
  }
  for (int i = 0; i < rows.rows_size(); ++i) {
    ASSIGN_OR_RETURN(decisions.emplace_back(),
                     CheckRows(request, i, push, empty));
  }
  return decisions;
}

absl::Status ContentPushes::CheckNumbers(const BufferChain& payload,
                                         NumberFormat format,
                                         std::vector<PushDecision>* decisions) {
  ids_.Clear();
  ChainReader names(payload);
  ChainReader numbers(payload);
  Skip(IdBytes(*decisions), &numbers);
  const NumberReader gradient(&numbers, format);
  for (PushDecision& decision : *decisions) {
    const std::string& name = decision.slice->variable().name();
    const auto refuse = [&](absl::string_view what) {
      return Refuse(v1::Refusal::QUARANTINED, name,
                    absl::StrCat("gradient for '", name, "' ", what,
                                 " in block ", decision.block, " of '",
                                 decision.slice->TensorName(), "'"));
    };
    if (decision.rows > 0) {
      ASSIGN_OR_RETURN(
          decision.first_id,
          ids_.Read(*decision.slice, decision.block, decision.rows, &names));
    }
    if (!IsFinite(gradient, &decision)) return refuse("is not finite");
    const GradientRms& running =
        decision.slice->block(decision.block).gradient_rms();
    // What is in already is acknowledged, whatever came since.
    if (decision.admission == AppliedPushes::Admission::kApply &&
        decision.slice->options().has_usual_size() &&
        running.IsSpike(decision.mean_square, spike_factor_)) {
      return refuse(absl::StrCat("has a root mean square of ",
                                 std::sqrt(decision.mean_square), ", above ",
                                 spike_factor_, " times the running one of ",
                                 running.value(), ","));
    }
  }
  return absl::OkStatus();
}

// One pass in either case.
bool ContentPushes::IsFinite(const NumberReader& gradient,
                             PushDecision* decision) const {
  const size_t elements = decision->elements;
  if (spike_factor_ == 0) {
    return optimizer_.ReadFinite(gradient, elements);
  }
  decision->mean_square = optimizer_.ReadMeanSquare(gradient, elements);
  return std::isfinite(decision->mean_square);
}

absl::StatusOr<PushDecision> ContentPushes::CheckBlock(
    const v1::PushBlock& block, const PushId& push, bool empty) const {
  ASSIGN_OR_RETURN(Slice* const slice,
                   content_.Find(block.slice(), block.block()));
  const int index = static_cast<int>(block.block());
  const std::string& name = slice->variable().name();
  if (slice->sparse()) {
    return Invalid(
        name, absl::StrCat("gradient for '", name, "' is of the whole block ",
                           index, "; the variable is sparse: push rows"));
  }
  const size_t elements = empty ? 0 : slice->block_elements(index);
  if (block.elements() != elements) {
    return Invalid(name, absl::StrCat("gradient for '", name, "' has ",
                                      block.elements(), " values in block ",
                                      index, "; the block has ", elements));
  }
  ASSIGN_OR_RETURN(const auto admission, slice->applied().Admit(push, index));
  return PushDecision{.slice = slice,
                      .place = block.slice(),
                      .block = index,
                      .admission = admission,
                      .elements = elements,
                      .read_life = block.computed_on().life(),
                      .read_counter = block.computed_on().counter()};
}

absl::StatusOr<PushDecision> ContentPushes::CheckRows(
    const v1::PushRequest& request, int which, const PushId& push,
    bool empty) const {
  const v1::RowBlocks& named = request.rows();
  const uint32_t block = named.blocks(which);
  const uint32_t rows = named.rows(which);
  ASSIGN_OR_RETURN(Slice* const slice,
                   content_.Find(named.slices(which), block));
  RETURN_IF_ERROR(CheckSparse(*slice, block));
  const std::string& name = slice->variable().name();
  if (rows > 0 && empty) {
    return Invalid(
        name, absl::StrCat("gradient for '", name, "' is of ", rows,
                           " rows in block ", block, ", and of no examples"));
  }
  const int index = static_cast<int>(block);
  ASSIGN_OR_RETURN(const auto admission, slice->applied().Admit(push, index));
  PushDecision decision = {.slice = slice,
                           .place = named.slices(which),
                           .block = index,
                           .admission = admission,
                           .elements = rows * slice->row_elements(),
                           .rows = rows};
  if (request.rows_computed_on().lives_size() > 0) {
    decision.read_life = request.rows_computed_on().lives(which);
    decision.read_counter = request.rows_computed_on().counters(which);
  }
  return decision;
}

}  // namespace paramd
