// Writes the corpus of the target beside it: lives of a worker, in short.

#include <string>
#include <utility>
#include <vector>

#include "base/fuzz/seeds.h"
#include "client/core/testing/configurations.h"
#include "proto/paramd/v1/control.pb.h"
#include "proto/paramd/v1/data.pb.h"
#include "tensor/fuzz/make_events.h"
#include "worker/core/fuzz/work.h"
#include "worker/core/testing/joined_worker.h"
#include "worker/core/worker.h"

namespace paramd::testing {
namespace {

using fuzz::AnswerOf;
using fuzz::Done;
using fuzz::Event;
using fuzz::Recorder;
using fuzz::TimePasses;

struct Life {
  v1::Consistency::Mode mode = v1::Consistency::ASYNC;
  bool snapshot = false;  // One is open from the first heartbeat on.
  bool drains = false;
  int events = 24;
};

// A cluster in which everything goes well.
class Cluster {
 public:
  explicit Cluster(const Life& life)
      : life_(life), worker_(WorkerOptions()), recorder_(&worker_, {}) {
    recorder_.set_work(fuzz::DoWork);
  }

  std::string Run() {
    for (int i = 0; i < life_.events && !recorder_.run().exited(); ++i) {
      if (life_.drains && i == life_.events / 2) {
        Event drain;
        drain.kind = Event::Kind::kDrain;
        recorder_.Add(drain);
      }
      Step();
    }
    return recorder_.bytes();
  }

 private:
  void Step() {
    for (size_t i = 0; i < recorder_.run().ios().size(); ++i) {
      if (dynamic_cast<const v1::ComputeGradient*>(
              recorder_.run().ios()[i].head.get()) != nullptr) {
        return recorder_.Add(Done(static_cast<uint8_t>(i)));
      }
    }
    if (recorder_.run().sends().empty()) return recorder_.Add(TimePasses());
    Answer(recorder_.run().sends()[0]);
  }

  void Answer(const Outbox::SendItem& sent) {
    const google::protobuf::Message* const head = sent.head.get();
    if (dynamic_cast<const v1::JoinRequest*>(head) != nullptr) {
      recorder_.Add(AnswerOf(Joined()));
    } else if (dynamic_cast<const v1::PortionRequest*>(head) != nullptr) {
      recorder_.Add(AnswerOf(NextPortion()));
    } else if (dynamic_cast<const v1::HeartbeatRequest*>(head) != nullptr) {
      v1::HeartbeatReply reply;
      reply.set_state(v1::RUNNING);
      reply.set_term(1);
      if (life_.snapshot) *reply.mutable_snapshot() = Pair(1, 1);
      recorder_.Add(AnswerOf(reply));
    } else if (const auto* pull = dynamic_cast<const v1::PullRequest*>(head)) {
      AnswerPull(*pull);
    } else if (dynamic_cast<const v1::PushRequest*>(head) != nullptr) {
      recorder_.Add(AnswerOf(JoinedWorker::PushReplyTo(sent)));
    } else {
      recorder_.Add(AnswerOf(v1::TellClockReply()));
    }
  }

  v1::JoinReply Joined() const {
    v1::JoinReply reply;
    *reply.mutable_generation() = Pair(1, 7);
    *reply.mutable_configuration() = MakeConfiguration({{"a", {2}, 0}}, 1);
    reply.mutable_configuration()->mutable_consistency()->set_mode(life_.mode);
    return reply;
  }

  v1::PortionReply NextPortion() {
    v1::PortionReply reply;
    reply.set_term(1);
    reply.mutable_portion()->set_id(++portions_);
    reply.mutable_portion()->set_epoch(1);
    reply.mutable_portion()->set_begin(16 * (portions_ - 1));
    reply.mutable_portion()->set_end(16 * portions_);
    return reply;
  }

  void AnswerPull(const v1::PullRequest& pull) {
    v1::PullReply reply;
    reply.set_encoding(v1::FP32);
    std::vector<float> values;
    for (const v1::PullBlock& asked : pull.blocks()) {
      v1::PulledBlock* const block = reply.add_blocks();
      block->set_slice(asked.slice());
      block->set_block(asked.block());
      block->set_elements(2);
      block->mutable_version()->set_life(++lives_);
      values.insert(values.end(), {1, 2});
    }
    recorder_.Add(AnswerOf(reply, {Floats(values)}));
  }

  const Life life_;
  Worker worker_;
  Recorder recorder_;
  uint64_t portions_ = 0;
  uint64_t lives_ = 0;
};

}  // namespace
}  // namespace paramd::testing

int main(int argc, char** argv) {
  using namespace paramd::testing;
  using paramd::v1::Consistency;
  if (argc != 2) return 2;
  paramd::fuzz::WriteSeeds(
      argv[1], "worker",
      {{"joins", Cluster({.events = 3}).Run()},
       {"trains", Cluster({}).Run()},
       {"trains_bounded", Cluster({.mode = Consistency::BOUNDED}).Run()},
       {"trains_sync", Cluster({.mode = Consistency::SYNC}).Run()},
       {"cuts", Cluster({.snapshot = true}).Run()},
       {"drains", Cluster({.drains = true, .events = 40}).Run()}});
  return 0;
}
