// Writes the corpus of the target beside it: lives of a server, in short.

#include <string>
#include <utility>
#include <vector>

#include "base/fuzz/seeds.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/storage.pb.h"
#include "server/core/testing/configurations.h"
#include "tensor/fuzz/make_events.h"

namespace paramd::testing {
namespace {

using fuzz::CallOf;
using fuzz::DoneOf;
using fuzz::Event;
using fuzz::TimePasses;
using Events = std::vector<Event>;

v1::ConfigureRequest Configure(const v1::Configuration& configuration) {
  v1::ConfigureRequest request;
  request.mutable_header()->set_term(configuration.version().term());
  *request.mutable_configuration() = configuration;
  return request;
}

// What every life begins with.
Events Ready(const v1::Configuration& configuration) {
  const Event configure =
      CallOf(PeerId::Coordinator(), Configure(configuration));
  return {configure, TimePasses(), configure};
}

v1::PushRequest Push(uint64_t sequence) {
  v1::PushRequest request;
  request.mutable_header()->set_worker(1);
  *request.mutable_header()->mutable_generation() = Pair(1, 11);
  request.mutable_header()->set_sequence(sequence);
  request.set_encoding(v1::FP32);
  request.set_clock(sequence);
  v1::PushBlock* const block = request.add_blocks();
  block->set_elements(2);
  return request;
}

v1::PullRequest Pull() {
  v1::PullRequest request;
  request.set_encoding(v1::FP32);
  request.add_blocks();
  return request;
}

Events Training(const v1::Configuration& configuration) {
  Events events = Ready(configuration);
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    events.push_back(
        CallOf(PeerId::Worker(1), Push(sequence), Payload({1, -0.5f})));
    events.push_back(CallOf(PeerId::Worker(1), Pull()));
  }
  v1::PushRequest pulls = Push(4);
  pulls.mutable_pull()->set_encoding(v1::BF16);
  *pulls.mutable_pull()->add_blocks() = Pull().blocks(0);
  events.push_back(CallOf(PeerId::Worker(1), pulls, Payload({0.25f, 8})));
  return events;
}

// Half of its weights become zero with the first push.
Events Pruned() {
  v1::Configuration configuration = Small();
  v1::OptimizerConfig::Pruning* const pruning =
      configuration.mutable_optimizer()->add_pruning();
  pruning->set_variables("w");
  pruning->set_sparsity(0.5);
  pruning->set_begin_step(1);
  pruning->set_end_step(1);
  Events events = Training(configuration);
  for (const v1::Encoding encoding : {v1::FP32, v1::BF16}) {
    v1::PullRequest pull = Pull();
    pull.set_encoding(encoding);
    pull.set_takes_packed(true);
    events.push_back(CallOf(PeerId::Worker(1), pull));
  }
  return events;
}

Events Snapshot() {
  Events events = Training(Small());
  events.push_back(CallOf(PeerId::Coordinator(), MakeSeal(1)));
  events.push_back(CallOf(PeerId::Worker(1), Push(5), Payload({1, 1})));
  events.push_back(TimePasses());
  v1::WriteShardResult written;
  written.mutable_file()->set_name("ps-00001-of-00001.safetensors");
  written.mutable_file()->set_bytes(123);
  events.push_back(DoneOf(written));
  events.push_back(CallOf(PeerId::Coordinator(), MakeWritten(1)));
  v1::FetchShardRequest fetch;
  *fetch.mutable_header() = MakeWritten(1).header();
  fetch.set_limit(1 << 20);
  events.push_back(CallOf(PeerId::Coordinator(), fetch));
  return events;
}

Events Restore() {
  v1::Configuration configuration = Small();
  configuration.mutable_servers(0)->set_restore_directory("/from");
  const Event configure =
      CallOf(PeerId::Coordinator(), Configure(configuration));
  v1::ReadSlicesResult read;
  read.mutable_manifest()->set_run_id("run");
  auto* const piece = read.add_slices()->add_pieces();
  piece->set_row_end(2);
  piece->mutable_saved()->set_row_end(2);
  return {configure,
          TimePasses(),
          DoneOf(read, Payload({3, 4})),
          TimePasses(),
          configure,
          CallOf(PeerId::Worker(1), Push(1), Payload({1, 1}))};
}

Events Steps() {
  v1::Configuration configuration = Small();
  configuration.mutable_consistency()->set_mode(v1::Consistency::SYNC);
  v1::Contributors* const contributors = configuration.mutable_contributors();
  *contributors->mutable_version() = Pair(1, 50);
  contributors->set_first_step(1);
  for (const uint32_t worker : {1, 2}) contributors->add_workers(worker);
  Events events = Ready(configuration);
  for (const uint32_t worker : {1, 2}) {
    v1::PushRequest share = Push(1);
    share.mutable_header()->set_worker(worker);
    *share.mutable_header()->mutable_generation() = Pair(1, 10 + worker);
    share.set_step(1);
    share.set_examples(4);
    *share.mutable_contributors() = contributors->version();
    events.push_back(CallOf(PeerId::Worker(worker), share, Payload({1, 2})));
  }
  events.push_back(TimePasses());
  v1::DecideRequest decide;
  decide.mutable_header()->set_term(1);
  *decide.mutable_contributors() = contributors->version();
  decide.set_step(1);
  for (const uint32_t worker : {1, 2}) decide.add_workers(worker);
  decide.set_examples(8);
  events.push_back(CallOf(PeerId::Coordinator(), decide));
  events.push_back(TimePasses());
  v1::PullRequest pull = Pull();
  pull.set_after_step(1);
  pull.set_clock(1);
  events.push_back(CallOf(PeerId::Worker(1), pull));
  return events;
}

Events Rows(bool keyed) {
  v1::Variable table = Zeros("table", {8, 2});
  table.set_sparse(true);
  table.set_keyed(keyed);
  Events events = Ready(MakeAdamConfiguration({table, Zeros("b", {2})}));
  const std::vector<uint32_t> rows = {1, 3};
  const std::vector<uint64_t> keys = {1, 3};
  BufferChain payload = {
      Buffer::Copy(keyed ? AsBytes(absl::MakeConstSpan(keys))
                         : AsBytes(absl::MakeConstSpan(rows)))};
  v1::PullRequest pull = Pull();
  pull.clear_blocks();
  pull.mutable_rows()->add_slices(0);
  pull.mutable_rows()->add_blocks(0);
  pull.mutable_rows()->add_rows(2);
  events.push_back(CallOf(PeerId::Worker(1), pull, payload));
  v1::PushRequest push = Push(1);
  push.clear_blocks();
  *push.mutable_rows() = pull.rows();
  for (const Buffer& numbers : Payload({1, 2, 3, 4})) {
    payload.push_back(numbers);
  }
  events.push_back(CallOf(PeerId::Worker(1), push, payload));
  events.push_back(CallOf(PeerId::Worker(1), pull));
  return events;
}

Events End() {
  Events events = Training(Small());
  v1::RecallRequest recall;
  recall.mutable_header()->set_term(2);
  recall.set_run_id("run");
  recall.set_job_digest("digest");
  events.push_back(CallOf(PeerId::Coordinator(), recall));
  v1::TellClockRequest clock;
  *clock.mutable_header() = Push(1).header();
  events.push_back(CallOf(PeerId::Worker(1), clock));
  v1::FinishRequest finish;
  finish.mutable_header()->set_term(2);
  events.push_back(CallOf(PeerId::Coordinator(), finish));
  finish.set_everybody_knows(true);
  events.push_back(CallOf(PeerId::Coordinator(), finish));
  return events;
}

}  // namespace
}  // namespace paramd::testing

int main(int argc, char** argv) {
  using namespace paramd::testing;
  if (argc != 2) return 2;
  const std::vector<std::pair<std::string, Events>> lives = {
      {"training", Training(Small())},
      {"adam", Training(MakeAdamConfiguration({Uniform("w", {2})}))},
      {"pruned", Pruned()},
      {"snapshot", Snapshot()},
      {"restore", Restore()},
      {"steps", Steps()},
      {"rows", Rows(/*keyed=*/false)},
      {"keys", Rows(/*keyed=*/true)},
      {"end", End()},
  };
  std::vector<std::pair<std::string, std::string>> seeds;
  for (const auto& [name, events] : lives) {
    seeds.emplace_back(name, paramd::fuzz::WriteEvents(events));
  }
  paramd::fuzz::WriteSeeds(argv[1], "shard", seeds);
  return 0;
}
