#include "tests/sim/keyed_witness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "config/fast_rows.h"
#include "coordinator/core/take_over.h"
#include "tensor/keyed_rows.h"
#include "tests/sim/answered_blocks.h"
#include "tests/sim/key_story.h"
#include "tests/sim/saved_rows.h"

namespace paramd {

absl::Status KeyedWitness::Sent(PeerId from,
                                const google::protobuf::Message& request) {
  if (const auto* push = dynamic_cast<const v1::PushRequest*>(&request)) {
    return ledger_.See(from, *push).status();
  }
  if (const auto* told = dynamic_cast<const v1::ReplicateRequest*>(&request)) {
    return Told(ServerOfPlace(places_, from.index), *told);
  }
  return absl::OkStatus();
}

absl::Status KeyedWitness::Answered(PeerId by,
                                    const google::protobuf::Message& request,
                                    const google::protobuf::Message& reply) {
  if (const auto* push = dynamic_cast<const v1::PushRequest*>(&request)) {
    return Acknowledged(*push, static_cast<const v1::PushReply&>(reply));
  }
  if (const auto* told = dynamic_cast<const v1::ReplicateRequest*>(&request)) {
    Taken(ServerOfPlace(places_, by.index), *told,
          static_cast<const v1::ReplicateReply&>(reply));
  }
  return absl::OkStatus();
}

absl::Status KeyedWitness::Told(uint32_t server,
                                const v1::ReplicateRequest& told) {
  const Stream stream = {server, NumberOf(told.since())};
  uint64_t& newest = told_[stream];
  if (told.number() <= newest) return absl::OkStatus();
  newest = told.number();
  if (!told.has_push()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto push, ledger_.Find(told.push().header()));
  const v1::RowBlocks& rows = told.push().rows();
  for (int i = 0; i < rows.slices_size(); ++i) {
    applied_[BlockOf(rows.slices(i), rows.blocks(i))].push_back(
        {push, stream, told.number()});
  }
  return absl::OkStatus();
}

void KeyedWitness::Taken(uint32_t server, const v1::ReplicateRequest& told,
                         const v1::ReplicateReply& taken) {
  uint64_t& newest = taken_[{server, NumberOf(told.since())}];
  newest = std::max(newest, taken.number());
}

absl::Status KeyedWitness::Acknowledged(const v1::PushRequest& push,
                                        const v1::PushReply& reply) {
  ASSIGN_OR_RETURN(const auto index, ledger_.Find(push.header()));
  for (const AnsweredBlock& block : AnsweredBlocks(push, reply)) {
    if (block.result != v1::PushedBlock::APPLIED) continue;
    applied_[BlockOf(block.slice, block.block)].push_back({index, {}, 0});
  }
  return absl::OkStatus();
}

void KeyedWitness::TakenOver(uint32_t server,
                             const v1::ConfigurationVersion& since) {
  took_over_.insert({server, NumberOf(since)});
}

bool KeyedWitness::IsUndone(const PushLedger::Push& push) const {
  v1::SessionId generation;
  generation.set_term(push.session.generation.first);
  generation.set_counter(push.session.generation.second);
  return std::any_of(
      went_back_.upper_bound(generation.term()), went_back_.end(),
      [&](const auto& went_back) {
        const absl::optional<v1::Manifest>& checkpoint = went_back.second;
        return !checkpoint.has_value() ||
               push.sequence >
                   PushesCounted(*checkpoint, push.session.worker, generation);
      });
}

std::vector<PushLedger::PushIndex> KeyedWitness::PushesIn(size_t block) const {
  std::vector<PushLedger::PushIndex> pushes;
  std::set<PushLedger::PushIndex> in;
  for (const Applied& applied : applied_[block]) {
    if (took_over_.contains(applied.stream)) {
      const auto taken = taken_.find(applied.stream);
      if (taken == taken_.end() || applied.number > taken->second) continue;
    }
    if (IsUndone(ledger_.push(applied.push))) continue;
    // It was told before it was acknowledged.
    if (in.insert(applied.push).second) pushes.push_back(applied.push);
  }
  return pushes;
}

std::vector<KeyedWitness::Row> KeyedWitness::RowsOf(
    size_t block, const std::vector<PushLedger::PushIndex>& pushes) const {
  const IntegerJob::BlockPlace& place = job_.blocks()[block];
  const v1::Variable& variable = job_.variables()[place.variable];
  const uint64_t width = variable.shape(1);
  std::vector<Row> rows(place.elements / width);
  const size_t named = rows.size() / job_.groups(block);
  KeyStory story(variable, BucketRows(width) - SpareRowsOf(variable));
  for (size_t i = 0; i < pushes.size(); ++i) {
    const PushLedger::Push& push = ledger_.push(pushes[i]);
    const float coefficient = push.coefficients[block];
    if (coefficient == 0) continue;  // It names no key.
    const size_t first = job_.GroupOf(push.batch, block) * named;
    const KeyStory::Named keys =
        story.Push(absl::MakeConstSpan(job_.keys())
                       .subspan(place.first_element / width + first, named),
                   first, /*now=*/i + 1);
    for (const size_t key : keys.lost) rows[key] = Row();
    for (const size_t key : keys.created) rows[key].present = true;
    for (const auto* const changed : {&keys.created, &keys.kept}) {
      for (const size_t key : *changed) rows[key].sum += coefficient;
    }
  }
  return rows;
}

absl::Status KeyedWitness::Check(const SimStorage& storage,
                                 const v1::Manifest& manifest) const {
  const size_t v = job_.variables().size() - 1;
  if (!job_.variables()[v].keyed()) return absl::OkStatus();
  const uint64_t width = job_.variables()[v].shape(1);
  ASSIGN_OR_RETURN(const SavedRows saved,
                   ReadRows(storage, job_, manifest, v, ""));
  for (size_t b = 0; b < job_.blocks().size(); ++b) {
    const IntegerJob::BlockPlace& place = job_.blocks()[b];
    if (place.variable != v) continue;
    const std::vector<PushLedger::PushIndex> pushes = PushesIn(b);
    if (pushes.size() != job_.batches().size()) {
      return Wrong("block ", b, " has ", pushes.size(), " pushes of ",
                   job_.batches().size(), " batches");
    }
    const std::vector<Row> rows = RowsOf(b, pushes);
    for (size_t key = 0; key < rows.size(); ++key) {
      const size_t of_job = place.first_element / width + key;
      if (saved.present[of_job] != rows[key].present) {
        return Wrong("key ", of_job,
                     rows[key].present ? " has no row" : " has a row",
                     " after ", pushes.size(), " pushes to its bucket");
      }
      for (uint64_t e = of_job * width; e < (of_job + 1) * width; ++e) {
        const float wanted = job_.ValueOf(v, e, rows[key].sum);
        if (saved.numbers[e] == wanted) continue;
        return Wrong("element ", e, " of '", job_.variables()[v].name(),
                     "' is ", saved.numbers[e], ", not ", wanted);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace paramd
