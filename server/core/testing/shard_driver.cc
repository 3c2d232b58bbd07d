#include "server/core/testing/shard_driver.h"

#include "base/check.h"
#include "proto/refusal.h"

namespace paramd::testing {
namespace {

Shard::Options OptionsOf(uint32_t index) {
  Shard::Options options;
  options.index = index;
  options.incarnation = 100 + index;
  options.life_seed = 1000 + index;
  return options;
}

}  // namespace

v1::Refusal::Reason ReasonOf(const absl::Status& refused) {
  return RefusalOf(refused).reason();
}

void AddRows(const std::pair<uint32_t, uint32_t>& place, uint32_t rows,
             v1::RowBlocks* named) {
  named->add_slices(place.first);
  named->add_blocks(place.second);
  named->add_rows(rows);
}

ShardDriver::ShardDriver(uint32_t index) : ShardDriver(OptionsOf(index)) {}

ShardDriver::ShardDriver(const Shard::Options& options) : shard_(options) {
  Outbox out;
  shard_.Start(now_, &out);
  Collect(&out);
}

CallId ShardDriver::Begin(PeerId from, const google::protobuf::Message& head,
                          BufferChain payload) {
  Message message;
  message.from = from;
  message.call = next_call_++;
  message.head = &head;
  message.payload = std::move(payload);
  const CallId call = message.call;
  Outbox out;
  shard_.Receive(std::move(message), now_, &out);
  Collect(&out);
  return call;
}

ShardDriver::Answer ShardDriver::Take(CallId call) {
  const auto it = answers_.find(call);
  CHECK(it != answers_.end(), "the call was answered");
  Answer answer = std::move(it->second);
  answers_.erase(it);
  return answer;
}

void ShardDriver::Reply(PeerId from, CallId call, Answer answer) {
  Message message;
  message.from = from;
  message.call = call;
  message.is_reply = true;
  message.status = std::move(answer.status);
  message.head = answer.head.get();
  message.payload = std::move(answer.payload);
  Outbox out;
  shard_.Receive(std::move(message), now_, &out);
  Collect(&out);
}

int ShardDriver::Settle() {
  int ticks = 0;
  for (; !exited && shard_.next_tick() <= now_; ++ticks) {
    Outbox out;
    shard_.Tick(now_, &out);
    Collect(&out);
  }
  return ticks;
}

void ShardDriver::Advance(absl::Duration duration) {
  now_ = now_ + duration;
  Settle();
}

void ShardDriver::Drain() {
  Outbox out;
  shard_.Drain(now_, &out);
  Collect(&out);
}

void ShardDriver::Complete(IoResult result) {
  Outbox out;
  shard_.Completed(std::move(result), now_, &out);
  Collect(&out);
}

absl::StatusOr<v1::ConfigureReply> ShardDriver::Configure(
    const v1::Configuration& configuration,
    const v1::SnapshotNumber& committed) {
  v1::ConfigureRequest request;
  *request.mutable_committed() = committed;
  request.mutable_header()->set_term(configuration.version().term());
  *request.mutable_configuration() = configuration;
  return Ask<v1::ConfigureReply>(PeerId::Coordinator(), request);
}

void ShardDriver::MakeReady(const v1::Configuration& configuration) {
  // Refused as NOT_READY the first time, while slices are filled.
  (void)Configure(configuration);
  Settle();
  const auto ready = Configure(configuration);
  CHECK(ready.ok() && ready->restored(), "the shard is filled");
}

v1::PushRequest ShardDriver::MakePush(uint64_t sequence,
                                      const std::vector<Place>& blocks,
                                      uint32_t elements) const {
  v1::PushRequest request;
  request.mutable_header()->set_worker(1);
  *request.mutable_header()->mutable_generation() = Pair(1, 11);
  request.mutable_header()->set_sequence(sequence);
  request.set_encoding(v1::FP32);
  for (const auto& [slice, index] : blocks) {
    v1::PushBlock* const block = request.add_blocks();
    block->set_slice(slice);
    block->set_block(index);
    block->set_elements(elements);
  }
  return request;
}

std::vector<float> ShardDriver::Pull(uint32_t slice, uint32_t block) {
  v1::PullRequest request;
  request.set_encoding(v1::FP32);
  request.add_blocks()->set_slice(slice);
  request.mutable_blocks(0)->set_block(block);
  const Answer answer = Call(PeerId{}, request);
  CHECK(answer.status.ok(), answer.status.ToString());
  return Numbers(answer.payload);
}

void ShardDriver::Collect(Outbox* out) {
  for (Outbox::ReplyItem& reply : out->replies) {
    const bool first =
        answers_
            .emplace(reply.call,
                     Answer{std::move(reply.status), std::move(reply.head),
                            std::move(reply.payload)})
            .second;
    CHECK(first, "a call is answered once");
  }
  for (Outbox::SendItem& send : out->sends) sends.push_back(std::move(send));
  replies_given_up += out->cancels_oldest_reply ? 1 : 0;
  for (Outbox::IoItem& io : out->ios) ios.push_back(std::move(io));
  for (Outbox::NoteItem& note : out->notes) {
    notes.push_back(std::move(note.sentence));
  }
  if (!out->exited) return;
  exited = true;
  exit_status = out->exit_status;
}

}  // namespace paramd::testing
