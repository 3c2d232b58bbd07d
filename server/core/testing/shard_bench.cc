#include "server/core/testing/shard_bench.h"

#include <memory>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "server/core/shard_filler.h"
#include "server/core/testing/configurations.h"

namespace paramd::testing {

ShardBench::ShardBench()
    : configuration(MakeConfiguration({Zeros("w", {2})})),
      generation(configuration.servers(0).generation()),
      view{options,  data,       term,         generation, configuration,
           sessions, fill_state, fill_failure, serving,    drained_by,
           draining, finished,   end,          checks} {
  options.incarnation = configuration.servers(0).incarnation();
  for (const v1::WorkerMember& worker : configuration.workers()) {
    sessions[worker.index()] = worker.generation();
  }
  MakeContent();
  FillContent();
}

void ShardBench::MakeContent() {
  data.content = *ShardContent::Create(
      configuration, {.max_reply_bytes = 1 << 22, .memory = &data.memory});
}

void ShardBench::FillContent() {
  RandomStream lives(1);
  ShardFiller::Options filling;
  filling.content = data.content.get();
  filling.lives = &lives;
  ShardFiller filler(filling);
  while (filler.CanStep()) filler.Step();
  CHECK(filler.done(), "zeros need not be read");
}

Message ShardBench::From(uint32_t worker, CallId call,
                         const google::protobuf::Message& head,
                         BufferChain payload) {
  Message message;
  message.from = PeerId::Worker(worker);
  message.call = call;
  message.head = &head;
  message.payload = std::move(payload);
  return message;
}

v1::PushRequest ShardBench::PushOf(uint64_t sequence) {
  v1::PushRequest push;
  push.mutable_header()->set_worker(1);
  *push.mutable_header()->mutable_generation() = Pair(1, 11);
  push.mutable_header()->set_sequence(sequence);
  push.set_encoding(v1::FP32);
  push.add_blocks()->set_elements(2);
  return push;
}

std::vector<float> ShardBench::Values() const {
  v1::PullRequest pull;
  pull.set_encoding(v1::FP32);
  pull.add_blocks();
  v1::PullReply reply;
  BufferChain payload;
  const absl::Status pulled =
      data.content->pulls().Pull(pull, {}, &reply, &payload);
  CHECK(pulled.ok(), pulled.ToString());
  return Numbers(payload);
}

}  // namespace paramd::testing
