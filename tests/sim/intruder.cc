#include "tests/sim/intruder.h"

#include <limits>
#include <memory>

#include "absl/time/time.h"

#include "proto/refusal.h"

namespace paramd {
void Intruder::Spoil(PeerId server, const v1::PushRequest& push,
                     const BatchPlace& batch) {
  Chunk chunk = {server, push, {}};
  chunk.head.set_encoding(v1::FP32);
  for (const v1::PushBlock& block : push.blocks()) {
    const uint32_t number =
        job_.slices()[block.slice()].first_block + block.block();
    const IntegerJob::BlockPlace& place = job_.blocks()[number];
    const float coefficient = job_.Coefficient(batch, number);
    for (uint64_t e = 0; e < place.elements; ++e) {
      const uint64_t element = place.first_element + e;
      chunk.payload.push_back(coefficient *
                              (job_.ValueOf(place.variable, element, 0) -
                               job_.ValueOf(place.variable, element, 1)));
    }
  }
  const uint64_t way = random_.Below(4);
  if (push.blocks().empty()) {
    SpoilRows(way, &chunk);
    chunks_.push_back(std::move(chunk));
    return;
  }
  v1::PushBlock* const last =
      chunk.head.mutable_blocks(chunk.head.blocks_size() - 1);
  switch (way) {
    case 0:
      chunk.payload.back() = std::numeric_limits<float>::quiet_NaN();
      break;
    case 1:
      chunk.payload.pop_back();
      break;
    case 2:
      last->set_elements(last->elements() + 1);
      chunk.payload.push_back(0);
      break;
    default:
      last->set_block(last->block() + 1000);
  }
  chunks_.push_back(std::move(chunk));
}

// Of a payload that it has not.
void Intruder::SpoilRows(uint64_t way, Chunk* chunk) {
  v1::RowBlocks& rows = *chunk->head.mutable_rows();
  const int last = rows.rows_size() - 1;
  switch (way) {
    case 0:
      chunk->payload.push_back(std::numeric_limits<float>::quiet_NaN());
      break;
    case 1:
      rows.set_rows(last, rows.rows(last) + 1);
      break;
    case 2:
      rows.add_rows(0);
      break;
    default:
      rows.set_blocks(last, rows.blocks(last) + 1000);
  }
}

void Intruder::Receive(Message message, Time, Outbox* out) {
  const v1::Refusal::Reason reason = RefusalOf(message.status).reason();
  if (message.status.ok()) {
    out->Exit(absl::InternalError("a chunk that is wrong was taken"));
  }
  refused_ +=
      reason == v1::Refusal::INVALID || reason == v1::Refusal::QUARANTINED ? 1
                                                                           : 0;
}

void Intruder::Tick(Time, Outbox* out) {
  for (Chunk& chunk : std::exchange(chunks_, {})) {
    out->Send(chunk.server, ++calls_,
              std::make_unique<v1::PushRequest>(std::move(chunk.head)),
              {Buffer::Copy(AsBytes<float>(chunk.payload))}, absl::Seconds(5));
  }
}

}  // namespace paramd
