// Writes the corpus of the target beside it: what servers answer.

#include <string>
#include <utility>
#include <vector>

#include "base/fuzz/seeds.h"
#include "client/core/fuzz/session_core.h"
#include "client/core/testing/configurations.h"
#include "proto/paramd/v1/data.pb.h"
#include "proto/paramd/v1/types.pb.h"
#include "tensor/fuzz/make_events.h"

namespace paramd::testing {
namespace {

using fuzz::AnswerOf;
using fuzz::Event;
using fuzz::Recorder;
using fuzz::TimePasses;

Event Pulled(const Outbox::SendItem& sent, uint64_t life) {
  v1::PullReply reply;
  reply.set_encoding(v1::FP32);
  const uint32_t elements = 2 + sent.to.index;
  for (const v1::PullBlock& asked :
       static_cast<const v1::PullRequest&>(*sent.head).blocks()) {
    v1::PulledBlock* const block = reply.add_blocks();
    block->set_slice(asked.slice());
    block->set_block(asked.block());
    block->mutable_version()->set_life(life);
    block->set_elements(elements);
  }
  return AnswerOf(reply, {Floats(std::vector<float>(elements, 3))});
}

// Every block packed, with its second number left.
Event PulledPacked(const Outbox::SendItem& sent, uint64_t life) {
  v1::PullReply reply;
  reply.set_encoding(v1::FP32);
  BufferChain payload;
  for (const v1::PullBlock& asked :
       static_cast<const v1::PullRequest&>(*sent.head).blocks()) {
    v1::PulledBlock* const block = reply.add_blocks();
    block->set_slice(asked.slice());
    block->set_block(asked.block());
    block->mutable_version()->set_life(life);
    block->set_elements(2 + sent.to.index);
    block->set_nonzero(1);
    payload.push_back(Buffer::Copy(std::string(1, '\x02')));
    payload.push_back(Floats({3}));
  }
  return AnswerOf(reply, payload);
}

Event Pushed(const Outbox::SendItem& sent, v1::PushedBlock::Result result) {
  v1::PushReply reply;
  *reply.mutable_server_generation() = Pair(1, sent.to.index + 1);
  for (const v1::PushBlock& asked :
       static_cast<const v1::PushRequest&>(*sent.head).blocks()) {
    v1::PushedBlock* const block = reply.add_blocks();
    block->set_slice(asked.slice());
    block->set_block(asked.block());
    block->set_result(result);
  }
  return AnswerOf(reply);
}

Event Refused(v1::Refusal::Reason reason, absl::StatusCode code) {
  v1::Refusal refusal;
  refusal.set_reason(reason);
  refusal.set_retry_after_ms(20);
  Event event;
  event.kind = Event::Kind::kFail;
  event.who = static_cast<uint8_t>(static_cast<int>(code) - 1);
  event.type = "Refusal";
  event.head = refusal.SerializeAsString();
  return event;
}

// So many answers; `other` in place of every third, if it has a kind.
std::string Answers(int count, v1::PushedBlock::Result result,
                    const Event* other = nullptr, bool packed = false) {
  fuzz::SessionCore core;
  Recorder recorder(&core, {});
  for (int i = 1; i <= count && !recorder.run().exited(); ++i) {
    if (recorder.run().sends().empty()) {
      recorder.Add(TimePasses());
      continue;
    }
    const Outbox::SendItem& sent = recorder.run().sends()[0];
    if (other != nullptr && i % 3 == 0) {
      recorder.Add(*other);
    } else if (dynamic_cast<const v1::PullRequest*>(sent.head.get())) {
      const auto life = static_cast<uint64_t>(i);
      recorder.Add(packed ? PulledPacked(sent, life) : Pulled(sent, life));
    } else {
      recorder.Add(Pushed(sent, result));
    }
  }
  return recorder.bytes();
}

}  // namespace
}  // namespace paramd::testing

int main(int argc, char** argv) {
  using namespace paramd::testing;
  using paramd::v1::PushedBlock;
  using paramd::v1::Refusal;
  if (argc != 2) return 2;
  const Event wait = Refused(Refusal::WAIT, absl::StatusCode::kUnavailable);
  const Event fenced =
      Refused(Refusal::FENCED, absl::StatusCode::kFailedPrecondition);
  const Event lost =
      Refused(Refusal::REASON_UNSPECIFIED, absl::StatusCode::kDeadlineExceeded);
  paramd::fuzz::WriteSeeds(
      argv[1], "session",
      {{"one_pull", Answers(2, PushedBlock::APPLIED)},
       {"whole", Answers(12, PushedBlock::APPLIED)},
       {"packed", Answers(12, PushedBlock::APPLIED, /*other=*/nullptr,
                          /*packed=*/true)},
       {"already_applied", Answers(8, PushedBlock::ALREADY_APPLIED)},
       {"superseded", Answers(8, PushedBlock::SUPERSEDED)},
       {"waits", Answers(12, PushedBlock::APPLIED, &wait)},
       {"fenced", Answers(12, PushedBlock::APPLIED, &fenced)},
       {"resent", Answers(20, PushedBlock::APPLIED, &lost)}});
  return 0;
}
