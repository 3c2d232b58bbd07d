#include "coordinator/core/fill_relay.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "config/optimizer_slots.h"
#include "proto/refusal.h"

namespace paramd {

using ::google::protobuf::DynamicCastToGenerated;

void FillRelay::Begin(const v1::Configuration& configuration, uint32_t server) {
  const v1::ServerMember& member =
      configuration.servers(static_cast<int>(server));
  const auto known = ways_.find(server);
  if (known != ways_.end() && known->second.generation == member.generation()) {
    return;
  }
  Way& way = ways_[server];
  way = {};
  way.generation = member.generation();
  way.all.set_path(member.restore_directory());
  if (member.restore_directory().empty()) {
    way.initial = configuration.warm_start();
  }
  way.all.mutable_check()->set_index(server);
  way.all.mutable_check()->set_of(configuration.servers_size());
  way.all.mutable_check()->set_alone(configuration.state() != v1::STARTING);
  const v1::Layout& layout = configuration.layout();
  for (const Slot& slot :
       SlotsOf(configuration.optimizer(), layout.variables())) {
    way.all.add_slots(std::string(slot.name));
  }
  for (const v1::Slice& slice : layout.slices()) {
    if (slice.server() != server) continue;
    const v1::Variable& variable =
        layout.variables(static_cast<int>(slice.variable()));
    v1::ReadSlices::Want* const want = way.all.add_slices();
    want->set_variable(variable.name());
    *want->mutable_shape() = variable.shape();
    want->set_row_begin(slice.row_begin());
    want->set_row_end(slice.row_end());
    want->set_values_only(variable.untrained());
    want->set_sparse(variable.sparse());
    want->set_keyed(variable.keyed());
    want->set_sketched(IsSketched(variable));
    const auto slots = SlotsOf(configuration.optimizer(), variable);
    if (FollowFrom(way.all.slots(), SlotOwnerOf(variable), slots)) continue;
    want->set_values_only(slots.empty());
    for (const Slot& slot : slots) want->add_own_slots(std::string(slot.name));
  }
}

void FillRelay::Told(const v1::Configuration& configuration, uint32_t server,
                     const v1::ConfigureReply& reply) {
  if (reply.restored()) End(server);
  if (reply.unseen() && reply.configuration() == configuration.version()) {
    Begin(configuration, server);
  }
}

bool FillRelay::NeedsRead(uint32_t server) const {
  const auto way = ways_.find(server);
  return way != ways_.end() && way->second.stage == Stage::kToRead;
}

std::unique_ptr<v1::ReadForServer> FillRelay::Read(uint32_t server) {
  Way& way = ways_.at(server);
  way.stage = Stage::kReading;
  const int slices = way.all.slices_size();
  auto work = std::make_unique<v1::ReadForServer>();
  work->set_server(server);
  if (way.initial.has_value()) {
    v1::ReadWarmStart* const initial = work->mutable_initial();
    *initial->mutable_warm_start() = *way.initial;
    if (way.slice < slices) *initial->add_slices() = way.all.slices(way.slice);
    return work;
  }
  v1::ReadSlices* const read = work->mutable_read();
  read->set_path(way.all.path());
  *read->mutable_slots() = way.all.slots();
  *read->mutable_check() = way.all.check();
  read->set_first(way.slice == 0);
  read->set_last(way.slice + 1 >= slices);
  if (way.slice < slices) *read->add_slices() = way.all.slices(way.slice);
  return work;
}

absl::Status FillRelay::Done(uint32_t server, const v1::ServerLife& generation,
                             const google::protobuf::Message* result,
                             BufferChain payload) {
  const auto found = ways_.find(server);
  if (found == ways_.end() || found->second.generation != generation ||
      found->second.stage != Stage::kReading) {
    return absl::OkStatus();
  }
  Way& way = found->second;
  way.total = ChainSize(payload);
  way.head.Clear();
  absl::Status taken = absl::InternalError("reading gave no result");
  if (const auto* read = DynamicCastToGenerated<v1::ReadSlicesResult>(result)) {
    taken = TakeRead(*read, &way);
  } else if (const auto* initial =
                 DynamicCastToGenerated<v1::ReadWarmStartResult>(result)) {
    taken = TakeInitial(*initial, way);
  }
  if (!taken.ok()) {
    return absl::Status(taken.code(),
                        absl::StrCat(taken.message(), ", slice ", way.slice,
                                     " of ps-", server));
  }
  way.stage = Stage::kToSend;
  way.offset = 0;
  way.bytes = std::move(payload);
  return absl::OkStatus();
}

absl::Status FillRelay::TakeRead(const v1::ReadSlicesResult& result, Way* way) {
  const int asked = way->slice < way->all.slices_size() ? 1 : 0;
  if (result.slices_size() != asked || (way->total > 0) != (asked > 0)) {
    return absl::DataLossError(
        absl::StrCat("'", way->all.path(), "' gave ", result.slices_size(),
                     " slices and ", way->total, " bytes"));
  }
  way->head.set_run_id(result.manifest().run_id());
  for (const v1::ShardFile& file : result.manifest().files()) {
    way->head.mutable_lost()->MergeFrom(file.lost());
  }
  if (asked == 0) return absl::OkStatus();
  for (const auto& piece : result.slices(0).pieces()) {
    v1::FillRequest::Piece* const sent = way->head.add_pieces();
    sent->set_row_begin(piece.row_begin());
    sent->set_row_end(piece.row_end());
    *sent->mutable_saved() = piece.saved();
  }
  return absl::OkStatus();
}

// A server that is blind asks for values only where all variables have some.
absl::Status FillRelay::TakeInitial(const v1::ReadWarmStartResult& result,
                                    const Way& way) {
  const int asked = way.slice < way.all.slices_size() ? 1 : 0;
  if (result.found_size() == asked && (asked == 0 || result.found(0)) &&
      (way.total > 0) == (asked > 0)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      absl::StrCat("'", way.initial->path(), "' gave ", way.total, " bytes"));
}

bool FillRelay::NeedsFill(uint32_t server) const {
  const auto way = ways_.find(server);
  return way != ways_.end() && way->second.stage == Stage::kToSend;
}

v1::FillRequest FillRelay::FillFor(uint32_t server,
                                   BufferChain* payload) const {
  const Way& way = ways_.at(server);
  CHECK(way.stage == Stage::kToSend, "what is sent has been read");
  v1::FillRequest fill;
  if (way.offset == 0) fill = way.head;
  fill.set_slice(static_cast<uint32_t>(way.slice));
  fill.set_offset(way.offset);
  fill.set_total(way.total);
  ChainReader reader(way.bytes);
  for (uint64_t left = way.offset; left > 0;) left -= reader.Next(left).size();
  *payload = reader.Take(std::min(piece_bytes_, way.total - way.offset));
  return fill;
}

void FillRelay::Filled(uint32_t server, const v1::FillReply& reply) {
  const auto found = ways_.find(server);
  if (found == ways_.end() || found->second.stage != Stage::kToSend) return;
  Way& way = found->second;
  if (reply.slice() == static_cast<uint32_t>(way.slice) && way.total > 0) {
    way.offset = std::min(reply.offset(), way.total);
    if (way.offset < way.total) return;
  }
  way.bytes.clear();
  const auto slices = static_cast<uint32_t>(way.all.slices_size());
  way.slice = static_cast<int>(std::min(reply.slice(), slices));
  way.stage = way.slice < way.all.slices_size() ? Stage::kToRead : Stage::kSent;
}

}  // namespace paramd
